"""Bringing files up in threads: one flight a file, shared by all who wait for it."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

from service.errors import IndexCorrupt, IndexFileError, MemlaneError, Unavailable
from service.replica import checks, heat
from service.replica.apply import DiskFullError
from service.replica.catchup import CatchUp
from service.replica.counters import Counters
from service.replica.evict import Evictor, last_used
from service.replica.failures import Failures, detail_of
from service.replica.node import Node, Replica
from service.replica.residents import Residents
from service.replica.spans import spans
from service.replica.upkeep import Upkeep
from service.settings import Settings

#: Files brought up at once.
THREADS = 4

_log = logging.getLogger(__name__)


class Flights:
    """What a follower is bringing up just now.

    Attributes:
        running: the work on each file; guarded by `news`.

    Counters: failed_catch_ups, checks_later, checks_cut, dropped.
    """

    def __init__(
        self,
        here: Residents,
        news: threading.Condition,
        node: Node,
        catch_up: CatchUp,
        evictor: Evictor,
        counters: Counters,
        settings: Settings,
    ) -> None:
        self.running: dict[str, concurrent.futures.Future[Replica]] = {}
        self._here = here
        self._news = news
        self._node = node
        self._catch_up = catch_up
        self._evictor = evictor
        self._counters = counters
        self._settings = settings
        self._failures = Failures(node)
        self._upkeep = Upkeep(here, node, counters, settings)
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS, "catch-up")

    def launch(self, file: str) -> concurrent.futures.Future[Replica]:
        """Start bringing a file up, or join those who wait for it.

        Raises:
            IndexCorrupt: what the store has of it is bad.
            Unavailable: it failed a moment ago.
        """
        with self._news:
            if (flight := self.running.get(file)) is None:
                if file not in self._here.heads:
                    raise Unavailable("the tenant was just taken away")
                self._failures.check(file, self._here.heads[file][1].epoch)
                flight = self._submit(file, self._bring_up)
            return flight

    def launch_due(self) -> None:
        """Start all that is behind and may no longer be, and the checks that are due."""
        now = time.time()
        with self._news:
            for file in self._here.behind():
                if file not in self.running and self._upkeep.due(file, self._pause_ms(file, now)):
                    with contextlib.suppress(Unavailable, IndexFileError):
                        self.launch(file)
            for file in self._upkeep.take_unchecked():
                if file not in self.running:
                    with contextlib.suppress(Unavailable):
                        self._submit(file, self._check)
                else:
                    self._upkeep.check_soon(file)

    def drop(self, file: str) -> None:
        """A file is gone from every shard; one in flight goes when it lands."""
        with self._news:
            self._failures.forget(file)
            self._upkeep.forget(file)
            if file not in self.running:
                self._here.drop(file, "dropped")

    def close(self) -> None:
        """Wait for what runs and start nothing more."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    # --- inside

    def _pause_ms(self, file: str, now: float) -> float:
        """For how long this file may stay behind."""
        replica = self._here.replicas.get(file)
        if replica is None or replica.dirty or file in self._here.always():
            return 0.0
        return heat.pause_ms((now - last_used(replica)) * 1_000, self._settings)

    def _submit(
        self, file: str, work: Callable[[str], Replica]
    ) -> concurrent.futures.Future[Replica]:
        try:
            flight = self._pool.submit(work, file)
        except RuntimeError as error:
            raise Unavailable("this node is stopping") from error
        self.running[file] = flight
        return flight

    def _bring_up(self, file: str) -> Replica:
        try:
            with spans.part("follow", file=file):
                before, replica = self._caught_up(file)
        except Exception as error:
            self._counters.add("failed_catch_ups")
            known = isinstance(error, MemlaneError)
            _log.warning("%s is not brought up: %s", file, detail_of(error), exc_info=not known)
            self._failed(file, error)
            if isinstance(error, IndexFileError):
                raise IndexCorrupt(error.detail) from error
            raise Unavailable(f"the tenant cannot be brought up: {detail_of(error)}") from error
        with self._news:
            del self.running[file]
            if replica.checked:
                self._failures.forget(file)
            self._here.put(replica)
            self._upkeep.done(before, replica)
            self._landed(file)
        return replica

    def _caught_up(self, file: str) -> tuple[Replica | None, Replica]:
        with self._news:
            head, target_ms = self._here.target(file)
            before = self._here.replicas.get(file)
            frozen = self._upkeep.trying(file)
            suspected = self._failures.is_bad(file)

        def run() -> Replica:
            return self._catch_up.run(
                file, head, target_ms, before, frozen=frozen, check_all=suspected
            )

        try:
            return before, run()
        except DiskFullError:
            with self._news:
                if not self._evictor.make_room(self.running):
                    raise
            return before, run()

    def _failed(self, file: str, error: Exception) -> None:
        with self._news:
            del self.running[file]
            if file in self._here.heads:
                self._failures.note(file, self._here.heads[file][1].epoch, error)
            self._here.reload(file)
            self._landed(file)

    def _landed(self, file: str) -> None:
        """A flight is over; a file that left every shard meanwhile goes now."""
        if file not in self._here.heads:
            self._here.drop(file, "dropped")
        self._news.notify_all()

    def _check(self, file: str) -> Replica:
        """The full check of a file that answers already; nothing is applied meanwhile."""
        with self._news:
            before = self._here.replicas[file]
        self._counters.add("checks_later")
        try:
            if not checks.check_pages(Path(before.path), most_ms=checks.LATER_MS):
                self._counters.add("checks_cut")
            replica = dataclasses.replace(before, checked=True)
            self._node.put_replica(replica)
        except Exception as error:
            cause = error.cause if isinstance(error, checks.BadFileError) else "damage"
            _log.warning("%s fails its check: %s", file, detail_of(error))
            with self._news:
                self._here.condemn(file, cause)
            self._failed(file, error)
            raise IndexCorrupt(detail_of(error)) from error
        with self._news:
            del self.running[file]
            self._failures.forget(file)
            self._here.put(replica)
            self._landed(file)
        return replica
