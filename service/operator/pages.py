"""The operator's pages: reports as HTML, by the templates in `service/templates/operator`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from service.operator import charts, summary
from service.telemetry.figures_cells import PHASES, TEMPERATURES

WINDOWS: Final = {60: "1 hour", 360: "6 hours", 1_440: "24 hours"}
"""Minutes -> what a page calls them."""
LABELS: Final[Mapping[str, str]] = {
    "ok": "ok",
    "cold": "cold",
    "timeout": "timeout",
    summary.CIRCUIT_OPEN: "skipped: circuit open",
    "skipped": "skipped: not asked for, or of no use",
    "disabled": "disabled",
    "hot": "hot",
    "warm": "warm",
    "p50": "median",
    "p95": "95th percentile",
    "p99": "99th percentile",
    "age": "oldest",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """How a node is, whether it is a reader or a writer; None where it does not apply.

    Attributes:
        ready, reasons, warnings: as `readyz` says.
        age_ms: how old what it knows is; of a writer, how long a commit has waited.
        replicas, replica_bytes: files on a reader's disk.
        shards: as a reader hears of them.
    """

    ready: bool
    reasons: list[str]
    warnings: list[str]
    age_ms: int | None
    replicas: int | None
    replica_bytes: int | None
    shards: list[dict[str, Any]]

    @classmethod
    def of(cls, health: Mapping[str, Any]) -> Condition:
        """From what `readyz` says."""
        return cls(
            ready=health["ready"],
            reasons=health["reasons"],
            warnings=health.get("warnings", []),
            age_ms=health.get("heads_age_ms", health.get("publish_lag_ms")),
            replicas=health.get("replicas"),
            replica_bytes=health.get("replica_bytes"),
            shards=list(health.get("shards", [])),
        )


def render(template: str, web: str, **values: Any) -> str:
    """A page.

    Args:
        template: its file, without ending.
        web: where the files of `service/web/` are.
        values: what it shows.
    """
    return _environment().get_template(f"operator/{template}.html").render(web=web, **values)


def drawn(report: Mapping[str, Any]) -> dict[str, charts.Chart]:
    """The charts of a report with a series."""
    series = report["series"]
    temperatures = [each["temperatures"] for each in series]
    latencies = {name: [each["latency_ms"][name] for each in series] for name in summary.SHARES}
    asked = [each["latency_ms"]["n"] for each in series]
    ages = [each["age_ms"] if n else None for each, n in zip(series, asked, strict=True)]
    return {
        "states": charts.bars([each["states"] for each in series], summary.KINDS),
        "latency": charts.lines(latencies),
        "age": charts.lines({"age": ages}),
        "temperatures": charts.bars(temperatures, TEMPERATURES),
    }


def duration(ms: float | None) -> str:
    """A time as people write it: `0.4 ms`, `12 ms`, `1.2 s`, `3 min`."""
    if ms is None:
        return "–"
    if ms < 10:
        return f"{ms:.1f} ms"
    if ms < 1_000:
        return f"{ms:.0f} ms"
    seconds = ms / 1_000
    if seconds < 60:
        return f"{seconds:.1f} s"
    if seconds < 3_600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def share(value: float | None) -> str:
    """A share in percent; `–` of nothing."""
    if value is None:
        return "–"
    return f"{100 * value:.2f}%" if 0 < value < 0.1 else f"{100 * value:.1f}%"


def moment(ms: float) -> str:
    """A moment in UTC, to the second."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%Y-%m-%d %H:%M:%S")


def clock(ms: float) -> str:
    """A moment in UTC, to the minute, without its day."""
    return datetime.fromtimestamp(ms / 1_000, UTC).strftime("%H:%M")


def size(count: float) -> str:
    """Bytes in a unit that fits."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1_024:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1_024
    return f"{count:.1f} GiB"


@cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("service", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "duration": duration,
        "share": share,
        "moment": moment,
        "clock": clock,
        "size": size,
        "count": lambda value: f"{value:,.0f}",
        "label": lambda kind: LABELS.get(kind, kind),
    }
    made.globals |= {
        "WINDOWS": WINDOWS,
        "KINDS": summary.KINDS,
        "SHARES": tuple(summary.SHARES),
        "TEMPERATURES": TEMPERATURES,
        "PHASES": PHASES,
        "ORDERS": tuple(summary.ORDERS),
    }
    return made
