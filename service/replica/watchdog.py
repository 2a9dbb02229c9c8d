"""Notices a Litestream that runs and does nothing, and ends it so that it is started again."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import time
from pathlib import Path

from service.replica.children import Child
from service.replica.counters import Counters
from service.replica.litestream import LitestreamClient

#: How often it is asked; a hung one costs the asking thread a second each time.
CHECK_MS = 1_000

_log = logging.getLogger(__name__)


class Watchdog:
    """Watches one Litestream from the thread that looks after it."""

    def __init__(self, data: Path, child: Child, *, silence_ms: int, counters: Counters) -> None:
        """Prepare.

        Args:
            data: the writer's data folder.
            child: its Litestream.
            silence_ms: how long the control socket may be silent.
            counters: litestream_hung is counted there.
        """
        self._counters = counters
        self._client = LitestreamClient(data)
        self._child = child
        self._silence_s = silence_ms / 1_000
        self._pid: int | None = None
        self._heard = self._next = time.monotonic()

    def poll(self) -> None:
        """Ask when it is time to; SIGKILL a process that has been silent for too long."""
        now = time.monotonic()
        pid = self._child.pid
        if pid != self._pid:  # a new process starts with a clean sheet
            self._pid, self._heard = pid, now
        if pid is None or now < self._next:
            return
        self._next = now + CHECK_MS / 1_000
        if self._client.run_id() is not None:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard >= self._silence_s:
            self._counters.add("litestream_hung")
            _log.error("litestream has been silent for %.0f s; killed", self._silence_s)
            self._heard = time.monotonic()
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
