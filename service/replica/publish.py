"""The writer's announcements: what of each file is replicated, about four times a second.

The publisher is a thread of the one process that commits, because that process alone knows what
changed; Litestream itself belongs to the supervising parent and is reached through its socket. It
announces nothing while Litestream does not answer, so the readers' age grows: silence is staleness.

For each changed file it reads the version, then has Litestream upload and wait. A commit that slips
in between travels along and is announced next time.

**Fencing.** Every publication is a conditional write over the one before: it fails once there is a
new owner (`restore.fence`). `durability=replicated` is acknowledged after one only, so nothing of
it is lost then; of `durability=local`, the last `staleness_ms` at most (`check_keeping_up`).
"""

from __future__ import annotations

import concurrent.futures
import dataclasses
import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from service.errors import MemlaneError, Unavailable
from service.replica import names
from service.replica.counters import Counters
from service.replica.fencing import FencedHeads
from service.replica.heads import Head, Heads
from service.replica.litestream import LitestreamClient
from service.replica.log_gate import LogGate
from service.replica.store import ObjectStore
from service.replica.tenure import UNFENCED, Tenure
from service.replica.uploads import as_announced, only_one, upload, with_lags

SYNC_THREADS = 4  # uploads waited for at once; one takes 3 ms with a folder and 76 ms with S3
#: `Heads.put_ms` is the longest of so many last ones.
PUTS_REMEMBERED = 64

_log = logging.getLogger(__name__)


class Publisher:
    """Announces one shard. `changed`, `replicate_now`, `forget` and the gauges fit any thread.

    Attributes:
        counters: publications, failed_publications, failed_syncs, litestream_silent, fenced.
    """

    def __init__(
        self,
        data: Path,
        store: ObjectStore,
        *,
        shard: str,
        registry: str | None,
        heads_interval_ms: int,
        heads_heartbeat_ms: int,
        tenure: Tenure = UNFENCED,
        url: str = "",
    ) -> None:
        """Prepare; nothing runs before `start`.

        Args:
            data: the writer's data folder.
            store: where the heads document goes.
            shard: its name.
            registry: the file that is the registry.
            heads_interval_ms: least time between two publications.
            heads_heartbeat_ms: time between publications when nothing changes.
            tenure: the ownership whose name is in the heads.
            url: where batches of the shard are taken, for others to tell.
        """
        self.counters = Counters()
        self._data = data.absolute()
        self._shard = shard
        self._registry = registry
        self._url = url
        self._fenced = FencedHeads(store, shard, tenure)
        self._interval = heads_interval_ms / 1_000
        self._heartbeat = heads_heartbeat_ms / 1_000
        self._litestream = LitestreamClient(self._data)
        self._gate = LogGate()
        self._run_id: str | None = None
        self._initialised: set[Path] = set()
        self._thread = threading.Thread(target=self._main, name="publisher", daemon=True)
        self._pool = concurrent.futures.ThreadPoolExecutor(SYNC_THREADS, "publisher-sync")

        # All below is guarded by this one condition, which tells of every change.
        self._news = threading.Condition()
        self._stopping = False
        self._loaded = False
        self._seq = 0
        self._heads: dict[str, Head] = {}
        self._announced: dict[str, int] = {}
        self._gone: set[str] = set()
        self._sealed: dict[str, str] = {}
        self._sealed_announced: set[str] = set()
        # Since when (monotonic seconds) a file has commits that are: not yet taken up; being
        # uploaded; uploaded and not yet announced.
        self._waiting: dict[str, float] = {}
        self._running: dict[str, tuple[concurrent.futures.Future[Head], float]] = {}
        self._uploaded: dict[str, float] = {}
        self._unpublished = False
        self._published_at = time.monotonic()
        self._puts: deque[float] = deque([0.0], maxlen=PUTS_REMEMBERED)

    # --- the process that commits

    def start(self) -> None:
        """Start announcing, once no other process of this folder does."""
        self._thread.start()

    def stop(self, timeout_ms: int) -> None:
        """Announce what is left, as far as the time allows, and end."""
        deadline = time.monotonic() + timeout_ms / 1_000
        with self._news:
            while self._oldest() is not None and self._thread.is_alive() and not self._fenced.lost:
                if not self._news.wait(deadline - time.monotonic()):
                    break
                if time.monotonic() >= deadline:
                    break
            self._stopping = True
            self._news.notify_all()
        if self._thread.is_alive():
            self._thread.join(max(0.0, deadline - time.monotonic()) + 2 * self._interval)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def changed(self, file: str) -> None:
        """A batch was committed to this file just now."""
        with self._news:
            if file not in self._gone and file not in self._sealed:
                self._waiting.setdefault(file, time.monotonic())
                self._news.notify_all()

    def replicate_now(self, file: str, version: int, timeout_ms: int) -> None:
        """Wait until `version` of a file is in the store and announced.

        Raises:
            Unavailable: not in time. The commit stands, and will be replicated, unless the shard
                is lost.
        """
        deadline = time.monotonic() + timeout_ms / 1_000
        self.changed(file)
        with self._news:
            self._wait(
                lambda: self._announced.get(file, -1) >= version,
                deadline,
                "committed, but not replicated in time",
                hint="Send the batch again with the same Idempotency-Key.",
            )

    def forget(self, file: str, timeout_ms: int) -> None:
        """Take a deleted file out of the announcements and wait until that is published.

        Only then may its local file go: a file that is announced and missing is restored.

        Raises:
            Unavailable: not in time.
        """
        deadline = time.monotonic() + timeout_ms / 1_000
        with self._news:
            self._gone.add(file)
            self._heads.pop(file, None)
            self._sealed.pop(file, None)
            for since in (self._waiting, self._uploaded):
                since.pop(file, None)
            self._unpublished = True
            self._news.notify_all()
            self._wait(
                lambda: not self._unpublished and file not in self._announced,
                deadline,
                "the deletion is not announced yet",
            )

    def seal(self, file: str, shard: str, timeout_ms: int) -> None:
        """Announce that a file is never written here again, and which shard goes on with it.

        Call it with batches held up and the last commit announced.

        Raises:
            Unavailable: not in time; it stays sealed.
        """
        deadline = time.monotonic() + timeout_ms / 1_000
        with self._news:
            if file not in self._heads:
                raise Unavailable("the file was not announced yet")
            self._sealed[file] = shard
            self._heads[file] = dataclasses.replace(self._heads[file], moved_to=shard)
            for since in (self._waiting, self._uploaded):
                since.pop(file, None)
            self._unpublished = True
            self._news.notify_all()
            self._wait(
                lambda: file in self._sealed_announced, deadline, "the move is not announced yet"
            )

    def sealed_files(self) -> dict[str, str]:
        """All files that are sealed and announced here, with the shards they go to."""
        return self._sealed.copy()

    def adopt(self, file: str) -> None:
        """A file that was forgotten is here again, under a later epoch."""
        with self._news:
            self._gone.discard(file)
        self.changed(file)

    def lag_ms(self) -> int:
        """How long the oldest commit has waited that is not announced; 0 when there is none."""
        with self._news:
            oldest = self._oldest()
        return 0 if oldest is None else int((time.monotonic() - oldest) * 1_000)

    def silent_ms(self) -> int:
        """How long ago the last publication was, beyond the usual heartbeat."""
        with self._news:
            since = time.monotonic() - self._published_at - self._heartbeat
        return max(0, int(since * 1_000))

    @property
    def put_ms(self) -> int:
        """The longest that writing the heads took of late."""
        return math.ceil(max(self._puts) * 1_000)

    def check_keeping_up(self, limit_ms: int) -> None:
        """Refuse new commits while the store is too far behind.

        Raises:
            Unavailable: the oldest commit, or the silence, is older than the limit, or the shard
                has another owner.
        """
        self._fenced.check()
        behind_ms = max(self.lag_ms(), self.silent_ms())
        if behind_ms > limit_ms:
            raise Unavailable(f"replication is {behind_ms} ms behind", retry_after_s=2)

    def _wait(
        self, done: Callable[[], bool], deadline: float, failure: str, hint: str | None = None
    ) -> None:
        while not done():
            self._fenced.check()
            if self._stopping or not self._news.wait(deadline - time.monotonic()):
                raise Unavailable(failure, hint=hint)

    # --- the publisher's own thread

    def _main(self) -> None:
        with only_one(self._data, lambda: self._stopping) as alone:
            next_round = time.monotonic()
            while alone:
                with self._news:
                    due = max(next_round, 0.0 if self._urgent() else self._beat())
                    if self._stopping:
                        return
                    if (pause := due - time.monotonic()) > 0:
                        self._news.wait(pause)
                        continue
                next_round = time.monotonic() + self._interval
                try:
                    self._round()
                except MemlaneError as error:
                    self.counters.add("failed_publications")
                    if self._fenced.lost:
                        self._end_fenced()
                        return
                    if self._gate.opens():
                        _log.warning("heads are not published: %s", error.detail)
                except Exception:
                    self.counters.add("failed_publications")
                    _log.exception("heads are not published")

    def _end_fenced(self) -> None:
        """The shard has another owner: release all who wait, and never come back."""
        self.counters.add("fenced")
        _log.error("shard %s has another owner", self._shard)
        with self._news:
            self._news.notify_all()

    def _urgent(self) -> bool:
        return bool(not self._loaded or self._waiting or self._running or self._unpublished)

    def _beat(self) -> float:
        return self._published_at + self._heartbeat

    def _round(self) -> None:
        run_id = self._litestream.run_id()
        if run_id is None:
            self.counters.add("litestream_silent")
            return
        if run_id != self._run_id:
            self.counters.add("litestream_restarts", self._run_id is not None)
            self._run_id = run_id
            self._initialised = set()
        if not self._loaded:
            self._load()
        self._start_uploads()
        self._collect()
        with self._news:
            due = self._unpublished or time.monotonic() >= self._beat()
        if due:
            self._publish()

    def _load(self) -> None:
        """Go on from the published heads; whatever differs from them has changed."""
        known = self._fenced.read()
        differing = [
            file
            for file in names.local_files(self._data)
            if known is None or not as_announced(self._data, file, known.tenants.get(file))
        ]
        with self._news:
            if known is not None:
                self._seq = known.seq
                kept = {f: h for f, h in known.tenants.items() if f not in self._gone}
                self._heads = with_lags(kept, {}, 0.0)
                self._announced = {file: head.version for file, head in known.tenants.items()}
                self._sealed = {f: h.moved_to for f, h in self._heads.items() if h.moved_to}
                self._sealed_announced = set(self._sealed)
            for file in differing:
                if file not in self._gone and file not in self._sealed:
                    self._waiting.setdefault(file, time.monotonic())
            self._loaded = True

    def _start_uploads(self) -> None:
        with self._news:
            ready = {f: s for f, s in self._waiting.items() if f not in self._running}
        paths = {file: names.current_path(self._data, file) for file in ready}
        if not self._initialised.issuperset(paths.values()):
            self._initialised = self._litestream.initialised()
        with self._news:
            for file, since in ready.items():
                if paths[file] in self._initialised and self._waiting.pop(file, None) is not None:
                    future = self._pool.submit(upload, self._litestream, file, paths[file])
                    self._running[file] = (future, since)

    def _collect(self) -> None:
        futures = [future for future, _ in self._running.values()]
        concurrent.futures.wait(futures, timeout=max(self._interval, 0.05))
        with self._news:
            for file, (future, since) in list(self._running.items()):
                if not future.done():
                    continue
                del self._running[file]
                if file in self._gone or file in self._sealed:
                    continue
                try:
                    head = future.result()
                except Exception as error:
                    self.counters.add("failed_syncs")
                    if self._gate.opens():
                        _log.warning("%s is not replicated yet: %s", file, error)
                    self._waiting[file] = since
                    continue
                self._uploaded[file] = min(since, self._uploaded.get(file, since))
                if head != self._heads.get(file):
                    self._heads[file] = head
                self._unpublished = True

    def _publish(self) -> None:
        with self._news:
            now = time.monotonic()
            self._seq += 1
            behind = {file: since for file, (_, since) in self._running.items()} | self._waiting
            tenants = with_lags(self._heads, behind, now)
            taken = set(self._uploaded)
            gone = set(self._gone)
            seq = self._seq
            self._unpublished = False
        document = Heads(
            shard=self._shard,
            seq=seq,
            published_at=int(time.time() * 1_000),
            tenants=tenants,
            registry=self._registry,
            put_ms=self.put_ms,
            url=self._url,
        )
        try:
            self._fenced.write(document)
        except BaseException:
            with self._news:
                self._unpublished = True
            raise
        self._puts.append(time.monotonic() - now)
        self.counters.add("publications")
        with self._news:
            self._announced = {f: h.version for f, h in tenants.items()}
            self._sealed_announced = {f for f, h in tenants.items() if h.moved_to}
            for file in taken:
                self._uploaded.pop(file, None)
            self._published_at = now
            # A file forgotten while the document was on its way needs one more.
            self._unpublished = self._unpublished or gone != self._gone
            self._news.notify_all()

    def _oldest(self) -> float | None:
        running = [since for _, since in self._running.values()]
        return min([*self._waiting.values(), *running, *self._uploaded.values()], default=None)
