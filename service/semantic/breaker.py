"""A circuit breaker: a sidecar that does not answer is not asked for a while."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Breaker:
    """Opens after some failures in a row; then lets one try through every so often.

    Safe to share among threads.

    Args:
        failures_most: failures in a row after which it opens.
        pause_ms: between two tries while it is open.
        clock: monotonic seconds.
    """

    def __init__(
        self, *, failures_most: int, pause_ms: int, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most = failures_most
        self._pause_s = pause_ms / 1_000
        self._clock = clock
        self._lock = threading.Lock()
        self._failures = 0
        self._next_try = 0.0

    @property
    def is_open(self) -> bool:
        """Does it hold calls back?"""
        with self._lock:
            return self._failures >= self._most

    def allows(self) -> bool:
        """May a call be made now? While open, yes to one caller every `pause_ms`."""
        with self._lock:
            if self._failures < self._most:
                return True
            now = self._clock()
            if now < self._next_try:
                return False
            self._next_try = now + self._pause_s
            return True

    def succeeded(self) -> None:
        """A call was answered in time: closed again."""
        with self._lock:
            self._failures = 0

    def failed(self) -> None:
        """A call was not answered, or too late."""
        with self._lock:
            self._failures += 1
            if self._failures >= self._most:
                self._next_try = self._clock() + self._pause_s
