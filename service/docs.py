"""Pages that are generated from code: `python -m service.docs` writes them, a test checks."""

from __future__ import annotations

from pathlib import Path

from service import settings
from service.http import problems
from service.telemetry import names

ROOT = Path(__file__).parent.parent / "docs"


def pages() -> dict[str, str]:
    """File name -> content."""
    return {
        "SETTINGS.md": (
            "# Settings\n\nEvery limit and interval is an environment variable, read once at"
            " start. Units are the last word of the name.\nGenerated from `service/settings.py`"
            " by `python -m service.docs`.\n\n" + settings.table()
        ),
        "ERRORS.md": (
            "# Errors\n\nEvery error is `application/problem+json` (RFC 9457): `type`, `title`,"
            " `status`, `detail` (what happened), `hint` (what to do next), `request_id`.\n"
            "Generated from `service/http/problems.py` by `python -m service.docs`.\n\n"
            + problems.table()
        ),
        "METRICS.md": (
            "# Metrics\n\nEvery metric that leaves a process over OTLP, and its name in Prometheus."
            " `docs/SLO.md` says what is promised of them, `docs/RUNBOOK.md` what to do. Nothing"
            " leaves unless OpenTelemetry's own variables say where to:"
            " `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_PROTOCOL` (`http/protobuf` or"
            " `grpc`), and `OTEL_METRIC_EXPORT_INTERVAL=5000`, since alerts are as late as that."
            " In Prometheus `job` is `memlane/` and the service's name, `instance` is host,"
            " process and a random part.\nGenerated"
            " from `service/telemetry/names.py` by `python -m service.docs`.\n\n" + names.table()
        ),
    }


def main() -> None:
    """Write the pages."""
    for name, content in pages().items():
        (ROOT / name).write_text(content)


if __name__ == "__main__":
    main()
