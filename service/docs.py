"""Pages that are generated from code: `python -m service.docs` writes them, a test checks."""

from __future__ import annotations

from pathlib import Path

from service import settings
from service.http import problems

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
    }


def main() -> None:
    """Write the pages."""
    for name, content in pages().items():
        (ROOT / name).write_text(content)


if __name__ == "__main__":
    main()
