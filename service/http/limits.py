"""How much runs at once: a few calls in threads, a bounded queue behind them, then 503."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

import anyio
from anyio.to_thread import run_sync

from service.errors import Unavailable

_T = TypeVar("_T")


class Busy(Unavailable):
    """Too much runs in this worker already."""

    hint_default = "Retry after the given seconds, or send fewer requests at once."


class Gate:
    """Lets `running` callers in at once and `waiting` more wait, in order of arrival.

    One worker's; used on its event loop only.

    Args:
        running: most inside at once.
        waiting: most that wait; one more is refused.
        patience_ms: longest that one waits.
        name: what is inside, for errors: "searches".
    """

    def __init__(self, *, running: int, waiting: int, patience_ms: int, name: str) -> None:
        self._places = anyio.Semaphore(running)
        self._threads = anyio.CapacityLimiter(running)
        self._most_waiting = waiting
        self._waiting = 0
        self._patience_s = patience_ms / 1_000
        self._name = name

    @asynccontextmanager
    async def enter(self) -> AsyncIterator[None]:
        """Hold a place.

        Raises:
            Busy: too many wait already, or the wait was too long.
        """
        await self._acquire()
        try:
            yield
        finally:
            self._places.release()

    async def run(self, call: Callable[[], _T]) -> _T:
        """Run a blocking call in a thread, holding a place.

        The place is held until the call is over, even when nobody waits for its result any more.

        Raises:
            Busy: too many wait already, or the wait was too long.
        """
        async with self.enter():
            return await self.thread(call)

    async def thread(self, call: Callable[[], _T]) -> _T:
        """Run a blocking call in a thread; for those who hold a place already."""
        return await run_sync(call, limiter=self._threads)

    async def _acquire(self) -> None:
        try:
            self._places.acquire_nowait()
        except anyio.WouldBlock:
            if self._waiting >= self._most_waiting:
                raise Busy(
                    f"this worker is busy: {self._waiting} {self._name} wait already"
                ) from None
            self._waiting += 1
            try:
                with anyio.fail_after(self._patience_s):
                    await self._places.acquire()
            except TimeoutError:
                raise Busy(
                    f"this worker is busy: waited {self._patience_s:g} s for other {self._name}"
                ) from None
            finally:
                self._waiting -= 1
