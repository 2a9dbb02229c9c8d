"""Times as other programs write them, as ms since 1970."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

LAST_MS: Final = 253_402_300_799_999
_SECONDS_MOST: Final = 100_000_000_000
"""As seconds this is the year 5138, as ms it is March 1973: smaller numbers are seconds."""


def now_ms() -> int:
    """The present, ms since 1970."""
    return time.time_ns() // 1_000_000


def to_ms(value: object) -> int | None:
    """Ms since 1970 from seconds, ms or ISO 8601 (UTC without a zone); None when it is no time."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value.strip().replace("Z", "+00:00"))
        except ValueError:
            return None
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return _within(round(moment.timestamp() * 1_000))
    if isinstance(value, int | float):
        if value != value or abs(value) > LAST_MS:  # NaN is not itself
            return None
        return _within(round(value * 1_000 if value < _SECONDS_MOST else value))
    return None


def _within(ms: int) -> int | None:
    return ms if 0 <= ms <= LAST_MS else None
