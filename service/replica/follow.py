"""The follower: the one process of a reader node that writes replicas.

It looks at the heads (`watch`), brings resident files to them, and brings files here that a worker
asks for. Web workers are other processes: they read replicas (`cache`) and ask over a socket
(`activation`). If the follower dies they go on serving what is here, honestly older by the second.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
import time
from collections.abc import Collection
from pathlib import Path

from service.errors import (
    IndexFileError,
    MemlaneError,
    NotFound,
    ReplicaBehind,
    Unavailable,
)
from service.replica import checks
from service.replica.catchup import CatchUp
from service.replica.counters import Counters
from service.replica.evict import Evictor
from service.replica.flights import Flights
from service.replica.freshness import now_ms
from service.replica.locks import FolderLock
from service.replica.node import LOCK, Node, Replica
from service.replica.quarantine import Quarantine
from service.replica.residents import Residents
from service.replica.store import ObjectStore
from service.replica.watch import Watch
from service.settings import Settings

#: `stop` is noticed within this.
STOP_S = 0.5


class Follower:
    """Follows shards into a cache folder. `ensure`, `warm`, `stop` and the gauges fit any thread.

    Attributes:
        counters: those of `Watch`, `Flights`, `CatchUp`, `Upkeep` and `Quarantine`, and
            evictions, false_alarms.
    """

    def __init__(
        self,
        cache: Path,
        store: ObjectStore,
        *,
        settings: Settings,
        shards: Collection[str] = (),
    ) -> None:
        """Take the cache folder and recover what a previous follower left.

        Args:
            cache: the node's own folder.
            store: the object store.
            settings: the limits.
            shards: the shards to follow; empty for all that the store has.

        Raises:
            SetupError: another follower has it.
        """
        self.cache = cache.absolute()
        self.cache.mkdir(parents=True, exist_ok=True)
        self.counters = Counters()
        self._settings = settings
        self._lock = FolderLock(self.cache / LOCK, what="a reader's cache")
        self._node = Node(self.cache)
        quarantine = Quarantine(
            self.cache,
            self.counters,
            files_most=settings.quarantine_files,
            bytes_most=settings.quarantine_bytes,
        )
        catch_up = CatchUp(
            store,
            self._node,
            self.counters,
            quarantine,
            check_inline_bytes=settings.check_inline_bytes,
        )
        self._quarantine = quarantine
        self._started = time.monotonic()
        self._stopping = False
        self._wake = threading.Event()

        # All below is guarded by this condition, which tells of every change.
        self._news = threading.Condition()
        self._here = Residents(self._node, self.counters, quarantine)
        self._watch = Watch(
            store, self._here, self._news, self.counters, shards=shards, settings=settings
        )
        self._evictor = Evictor(self._here, quarantine, self.cache, settings)
        self._flights = Flights(
            self._here, self._news, self._node, catch_up, self._evictor, self.counters, settings
        )

    @property
    def uptime_ms(self) -> int:
        """How long ago it was started."""
        return int((time.monotonic() - self._started) * 1_000)

    # --- life

    def run(self) -> None:
        """Follow until `stop`; the calling thread is the polling one."""
        try:
            while not self._stopping:
                self._wake.clear()
                pause_s = self._watch.step()
                with self._news:
                    for file in self._watch.take_leavers():
                        self._flights.drop(file)
                        self._quarantine.forget(file)
                self._flights.launch_due()
                with self._news:
                    self._evictor.run(self._flights.running)
                self._wake.wait(min(pause_s, STOP_S))
        finally:
            self._stopping = True
            with self._news:
                self._news.notify_all()
            self._flights.close()
            self._node.close()
            self._lock.close()

    def stop(self) -> None:
        """Ask `run` to finish what it applies and return, within `STOP_S`.

        Fits a signal handler: it takes no lock, which the interrupted thread might hold.
        """
        self._stopping = True

    # --- for workers

    def ensure(
        self, file: str, min_version: int, deadline_ms: int, *, max_age_ms: int | None = None
    ) -> Replica:
        """Have a file here, new enough; all who ask at once share the work.

        Args:
            file: its name.
            min_version: the least version that will do.
            deadline_ms: how long that may take.
            max_age_ms: the greatest age that will do.

        Raises:
            NotFound: no head announces it, not even after a look just now.
            ReplicaBehind: it is here, and did not become new enough in time.
            IndexCorrupt: what the store has of it is bad.
            Unavailable: not here in time, or restoring it fails.
        """
        asked = time.monotonic()
        deadline = asked + deadline_ms / 1_000
        while True:
            with self._news:
                if replica := self._serving(file, min_version, max_age_ms):
                    return replica
                known = file in self._here.heads
                waits = not known or self._here.current(file)
                unheard = not known and not min_version and self._watch.seen_since(asked)
            left = deadline - time.monotonic()
            if left <= 0 or unheard or self._stopping:
                raise self._late(file)
            if waits:
                self._await_look(file, left)
                continue
            try:
                self._flights.launch(file).result(left)
            except concurrent.futures.TimeoutError:
                continue
            except (Unavailable, IndexFileError):
                if not self._serving(file, 0):
                    raise
                self._await_look(file, left)  # it serves, and may still get there in time

    def warm(self, file: str, pin_ms: int, deadline_ms: int) -> tuple[Replica, int]:
        """Have a file here and keep it from eviction for a while.

        Returns:
            The replica, and for how many ms it is pinned: 0 when too much is already.

        Raises:
            NotFound, IndexCorrupt, Unavailable: see `ensure`.
        """
        with self._news, contextlib.suppress(Unavailable, IndexFileError):
            if file in self._here.heads and file not in self._here.replicas:
                self._flights.launch(file)  # goes on even when the caller does not wait for it
        replica = self.ensure(file, 0, deadline_ms)
        pin_ms = min(pin_ms, self._settings.pin_ms)
        with self._news:
            resident = file in self._here.replicas
            most = self._settings.pinned_bytes
            pinned = resident and pin_ms and self._here.pin(file, now_ms() + pin_ms, most)
        return replica, pin_ms if pinned else 0

    def suspect(self, file: str) -> bool:
        """A worker found a replica damaged: check it in full, and restore it if it is.

        Returns:
            Whether it was damaged.
        """
        with self._news:
            replica = self._serving(file, 0)
            if replica is None or file in self._flights.running:
                return False
        try:
            checks.check_schema(Path(replica.path))
            checks.check_pages(Path(replica.path))
        except (checks.BadFileError, NotFound) as error:
            cause = getattr(error, "cause", "damage")
            with self._news:
                if self._here.replicas.get(file) == replica and file not in self._flights.running:
                    self._here.condemn(file, cause)
            self._wake.set()
            return True
        self.counters.add("false_alarms")
        return False

    def _serving(self, file: str, version: int, max_age_ms: int | None = None) -> Replica | None:
        replica = self._here.replicas.get(file)
        if replica is None or replica.dirty or replica.version < version:
            return None
        if max_age_ms is not None and file in self._here.heads:
            return replica if self._here.age_ms(file) <= max_age_ms else None
        return replica

    def _late(self, file: str) -> MemlaneError:
        with self._news:
            replica = self._serving(file, 0)
            if file not in self._here.heads:
                if self._watch.answers:
                    return NotFound("no such tenant")
                return Unavailable("the object store does not answer")
            if replica is None:
                return Unavailable("the tenant is not restored on this node yet")
            return ReplicaBehind(
                f"this node has version {replica.version}",
                version=replica.version,
                age_ms=self._here.age_ms(file),
            )

    def _await_look(self, file: str, seconds: float) -> None:
        """Wait until the heads were looked at again, soon because of this."""
        with self._news:
            looks = self._watch.looks
            shard = self._watch.hurry_for(file)
            self._wake.set()
            try:
                self._news.wait_for(lambda: self._watch.looks > looks or self._stopping, seconds)
            finally:
                self._watch.calm(shard)
