"""Lets a repeated complaint into the log once in a while; counters count every one."""

from __future__ import annotations

import time

PAUSE_MS = 10_000


class LogGate:
    """`opens()` is true at first, and again when `PAUSE_MS` have passed since it was."""

    def __init__(self) -> None:
        self._next = 0.0

    def opens(self) -> bool:
        """May the complaint be logged now?"""
        now = time.monotonic()
        if now < self._next:
            return False
        self._next = now + PAUSE_MS / 1_000
        return True
