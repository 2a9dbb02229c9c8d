"""The follower: the one process of a reader node that writes replicas.

It looks at the heads, brings resident files to them, and brings files here that a worker asks for.
Web workers are other processes: they read replicas (`cache`) and ask over a socket (`activation`).
If the follower dies they go on serving what is here, honestly older by the second.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import apsw

from service.errors import (
    IndexFileError,
    MemlaneError,
    NotFound,
    ReplicaBehind,
    ReplicationError,
    Unavailable,
)
from service.replica import heads as documents
from service.replica import names
from service.replica.catchup import CatchUp
from service.replica.counters import Counters
from service.replica.freshness import now_ms
from service.replica.locks import FolderLock
from service.replica.log_gate import LogGate
from service.replica.node import LOCK, Node, Replica
from service.replica.residents import Residents
from service.replica.stamps import read_stamps
from service.replica.store import ObjectStore, Stored

#: Files brought up at once.
THREADS = 4
#: How often the heads are read while somebody waits for a version.
EAGER_POLL_MS = 50
#: After a failure a file is left alone for this long; doubled each time, up to the second.
RETRY_MS = 250
RETRY_MOST_MS = 15_000

_log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class _Failure:
    count: int
    again_at: float
    detail: str


class Follower:
    """Follows shards into a cache folder. `ensure`, `stop` and the gauges fit any thread.

    Attributes:
        counters: those of `CatchUp`, and polls, failed_polls, old_heads, failed_catch_ups,
            evictions, dropped, false_alarms.
    """

    def __init__(
        self,
        cache: Path,
        store: ObjectStore,
        *,
        shards: Sequence[str],
        poll_interval_ms: int,
        resident_files: int,
        resident_bytes: int,
    ) -> None:
        """Take the cache folder and recover what a previous follower left.

        Raises:
            SetupError: another follower has it.
        """
        self.cache = cache.absolute()
        self.cache.mkdir(parents=True, exist_ok=True)
        self.counters = Counters()
        self._lock = FolderLock(self.cache / LOCK, what="a reader's cache")
        self._store = store
        self._node = Node(self.cache)
        self._catch_up = CatchUp(store, self._node, self.counters)
        self._shards = list(shards)
        self._interval = poll_interval_ms / 1_000
        self._resident_files = resident_files
        self._resident_bytes = resident_bytes
        self._etags: dict[str, str] = {}
        self._stopping = False
        self._gate = LogGate()
        self._wake = threading.Event()
        self._pool = concurrent.futures.ThreadPoolExecutor(THREADS, "catch-up")

        # All below is guarded by this condition, which tells of every change.
        self._news = threading.Condition()
        self._here = Residents(self._node, self.counters)
        self._polls = 0
        self._store_answers = False
        self._waiters = 0
        self._flights: dict[str, concurrent.futures.Future[Replica]] = {}
        self._failures: dict[str, _Failure] = {}

    # --- life

    def run(self) -> None:
        """Follow until `stop`; the calling thread is the polling one."""
        try:
            while not self._stopping:
                self._wake.clear()
                self.poll()
                self._launch_all()
                self._evict()
                eager = self._waiters > 0
                self._wake.wait(
                    min(self._interval, EAGER_POLL_MS / 1_000) if eager else self._interval
                )
        finally:
            self._stopping = True
            with self._news:
                self._news.notify_all()
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._node.close()
            self._lock.close()

    def stop(self) -> None:
        """Ask `run` to finish what it applies and return, within a poll interval.

        Fits a signal handler: it takes no lock, which the interrupted thread might hold.
        """
        self._stopping = True

    # --- for workers

    def ensure(self, file: str, min_version: int, deadline_ms: int) -> Replica:
        """Have a file here, at `min_version` or later; all who ask at once share the work.

        Raises:
            NotFound: no head announces it, not even after a look just now.
            ReplicaBehind: it is here, and did not reach the version in time.
            Unavailable: not here in time, or restoring it fails.
        """
        deadline = time.monotonic() + deadline_ms / 1_000
        with self._news:
            if replica := self._serving(file, min_version):
                return replica
        with self._waiting():
            # A poll that runs already may have begun too early to show the file: two must end.
            polls = self._polls + 2
            while True:
                with self._news:
                    if replica := self._serving(file, min_version):
                        return replica
                    known = file in self._here.heads
                    current = self._here.current(file)
                left = deadline - time.monotonic()
                unheard = not known and not min_version and self._polls >= polls
                if left <= 0 or unheard or self._stopping:
                    raise self._late(file)
                if not known or current:
                    self._await_poll(left)
                    continue
                try:
                    self._launch(file).result(left)
                except concurrent.futures.TimeoutError:
                    continue
                except Unavailable:
                    if not self._serving(file, 0):
                        raise
                    self._await_poll(left)  # it serves, and may still get there in time

    def suspect(self, file: str) -> bool:
        """A worker found a replica damaged: check it in full, and restore it if it is.

        Returns:
            Whether it was damaged.
        """
        with self._news:
            replica = self._serving(file, 0)
            if replica is None or file in self._flights:
                return False
        try:
            read_stamps(Path(replica.path), check=True)
        except (IndexFileError, NotFound, apsw.Error):
            with self._news:
                if self._here.replicas.get(file) == replica and file not in self._flights:
                    self._here.condemn(file)
            self._wake.set()
            return True
        self.counters.add("false_alarms")
        return False

    def _serving(self, file: str, version: int) -> Replica | None:
        replica = self._here.replicas.get(file)
        fits = replica is not None and not replica.dirty and replica.version >= version
        return replica if fits else None

    def _late(self, file: str) -> MemlaneError:
        with self._news:
            replica = self._serving(file, 0)
            if file not in self._here.heads:
                if self._store_answers:
                    return NotFound("no such tenant")
                return Unavailable("the object store does not answer")
            if replica is None:
                return Unavailable("the tenant is not restored on this node yet")
            return ReplicaBehind(
                f"this node has version {replica.version}",
                version=replica.version,
                age_ms=self._here.age_ms(file),
            )

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        with self._news:
            self._waiters += 1
        self._wake.set()  # look now, and every `EAGER_POLL_MS` as long as somebody waits
        try:
            yield
        finally:
            with self._news:
                self._waiters -= 1

    def _await_poll(self, seconds: float) -> None:
        with self._news:
            polls = self._polls
            self._news.wait_for(lambda: self._polls > polls or self._stopping, seconds)

    # --- heads

    def poll(self) -> None:
        """Look at every shard's heads once."""
        answers = True
        for shard in self._shards:
            try:
                self._poll_shard(shard)
            except (ReplicationError, apsw.Error) as error:
                answers = False
                self.counters.add("failed_polls")
                if self._gate.opens():
                    _log.warning("heads of shard %s cannot be followed: %s", shard, error)
        self.counters.add("polls")
        with self._news:
            self._polls += 1
            self._store_answers = answers
            self._news.notify_all()

    def _poll_shard(self, shard: str) -> None:
        began_ms = now_ms()
        stored = self._store.get(names.heads_key(shard), known_etag=self._etags.get(shard))
        heads = documents.decode(stored.body) if isinstance(stored, Stored) else None
        with self._news:
            for file in self._here.take_over(shard, heads, began_ms):
                self._failures.pop(file, None)
                if file not in self._flights:
                    self._here.drop(file, "dropped")
        if isinstance(stored, Stored):
            self._etags[shard] = stored.etag

    # --- files

    def _launch_all(self) -> None:
        with self._news:
            behind = [file for file in self._here.behind() if file not in self._flights]
        for file in behind:
            with contextlib.suppress(Unavailable):
                self._launch(file)

    def _launch(self, file: str) -> concurrent.futures.Future[Replica]:
        """Start bringing a file up, or join those who wait for it.

        Raises:
            Unavailable: it failed a moment ago.
        """
        with self._news:
            if (flight := self._flights.get(file)) is not None:
                return flight
            failure = self._failures.get(file)
            if failure is not None and (left := failure.again_at - time.monotonic()) > 0:
                raise Unavailable(failure.detail, retry_after_s=int(left) + 1)
            try:
                flight = self._pool.submit(self._bring_up, file)
            except RuntimeError as error:
                raise Unavailable("this node is stopping") from error
            self._flights[file] = flight
            return flight

    def _bring_up(self, file: str) -> Replica:
        try:
            with self._news:
                head, target_ms = self._here.target(file)
                before = self._here.replicas.get(file)
            replica = self._catch_up.run(file, head, target_ms, before)
        except Exception as error:
            known = isinstance(error, MemlaneError)
            detail = error.detail if isinstance(error, MemlaneError) else type(error).__name__
            self.counters.add("failed_catch_ups")
            _log.warning("%s is not brought up: %s", file, detail, exc_info=not known)
            with self._news:
                self._failed(file, detail)
            raise Unavailable(f"the tenant cannot be brought up: {detail}") from error
        with self._news:
            del self._flights[file]
            self._failures.pop(file, None)
            self._here.replicas[file] = replica
            if file not in self._here.heads:
                self._here.drop(file, "dropped")
            self._news.notify_all()
        return replica

    def _failed(self, file: str, detail: str) -> None:
        del self._flights[file]
        count = self._failures[file].count + 1 if file in self._failures else 1
        pause_ms = min(RETRY_MS << min(count - 1, 10), RETRY_MOST_MS)
        self._failures[file] = _Failure(count, time.monotonic() + pause_ms / 1_000, detail)
        self._here.reload(file)
        self._news.notify_all()

    def _evict(self) -> None:
        with self._news:
            self._here.evict(self._resident_files, self._resident_bytes, self._flights)
