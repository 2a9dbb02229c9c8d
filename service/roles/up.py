"""All roles on one machine, with a folder as object store: the embedded default."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Protocol

#: How often a supervisor looks after its children.
POLL_MS = 100


class Role(Protocol):
    """Something that a command keeps running."""

    def start(self) -> None:
        """Bring it up, until it answers."""

    def poll(self) -> None:
        """Look after it."""

    def stop(self) -> None:
        """Let it finish and end."""


class StopSignal:
    """Set by SIGTERM or SIGINT; a second one ends the process at once."""

    def __init__(self) -> None:
        self._event = threading.Event()

    @property
    def is_set(self) -> bool:
        """Whether the signal came."""
        return self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Sleep until the signal or the time; whether the signal came."""
        return self._event.wait(seconds)

    def __call__(self, _number: int, _frame: FrameType | None) -> None:
        """As a signal handler."""
        if self._event.is_set():
            raise KeyboardInterrupt
        self._event.set()


@contextmanager
def running(*roles: Role) -> Iterator[StopSignal]:
    """Start roles in order, yield, and stop them in the other order, whatever happens."""
    stop = StopSignal()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    started: list[Role] = []
    try:
        for role in roles:
            if stop.is_set:
                break
            started.append(role)
            role.start()
        yield stop
    finally:
        for role in reversed(started):
            role.stop()


def keep(stop: StopSignal, *roles: Role) -> None:
    """Look after running roles until the signal."""
    while not stop.wait(POLL_MS / 1_000):
        for role in roles:
            role.poll()
