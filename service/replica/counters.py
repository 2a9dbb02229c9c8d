"""Counts of what happened, by name; telemetry reads them."""

from __future__ import annotations

import threading
from collections import Counter


class Counters:
    """A few named counters that several threads add to."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()

    def add(self, name: str, amount: int = 1) -> None:
        """Count something."""
        with self._lock:
            self._counts[name] += amount

    def __getitem__(self, name: str) -> int:
        with self._lock:
            return self._counts[name]

    def snapshot(self) -> dict[str, int]:
        """All counts at one moment."""
        with self._lock:
            return dict(self._counts)
