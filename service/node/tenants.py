"""A writer node's tenants: the files it owns, and the one way a batch gets into them."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import apsw

from service.errors import (
    IndexCorrupt,
    MemlaneError,
    NotFound,
    ReplicaBehind,
    TooLarge,
    Unavailable,
)
from service.index.document import Operation
from service.index.reader import IndexReader
from service.index.vector_writer import VectorWriter
from service.index.writer import BatchResult, IndexWriter
from service.node.pool import ReaderPool
from service.node.shardmap import ShardMap
from service.replica import (
    UNFENCED,
    LeaseGuard,
    Publisher,
    first_epoch,
    latest_epoch,
    local_files,
    writer_path,
)
from service.settings import Settings
from service.tenancy.placements import MAIN, Placements
from service.tenancy.records import Tenant, TenantState
from service.tenancy.registry import Registry


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedFile:
    """The writer's own file: the truth itself, so its age is 0."""

    reader: IndexReader
    age_ms: int
    as_of_ms: int
    temperature: str = "hot"


class _Open:
    """One file's writer and the lock that makes batches wait for each other."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.writer: IndexWriter | None = None
        self.users = 0


class Tenants:
    """The files of a writer node. Safe to share among threads of the one process that commits."""

    def __init__(
        self,
        data: Path,
        *,
        registry: Registry | None,
        publisher: Publisher,
        settings: Settings,
        guard: LeaseGuard | None = None,
        shards: ShardMap | None = None,
    ) -> None:
        """Prepare.

        Args:
            data: the writer's data folder.
            registry: says which tenants there are; None where another shard has it.
            publisher: is told of every commit; not started or stopped here.
            settings: the limits.
            guard: asked before a batch is begun and before it is acknowledged; None when nobody
                contends for the shard.
            shards: which files are this shard's; None when there is one shard.
        """
        self._data = data
        self._registry = registry
        self._publisher = publisher
        self._guard = guard or LeaseGuard(data, UNFENCED)
        self._settings = settings
        self._shards = shards
        self.listener: Callable[[str], None] = lambda _: None
        """Is told of every file that a batch changed, or that was replaced."""
        self.applied: Callable[[BatchResult, str, float], None] = lambda *_: None
        """Is told of every batch about to be acknowledged, its durability, and the seconds."""
        self._lock = threading.Lock()
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._pool = ReaderPool.within(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.close()
        for entry in self._open.values():
            with entry.lock:
                if entry.writer is not None:
                    entry.writer.close()

    @contextmanager
    def open(
        self,
        file: str,
        *,
        min_version: int | None,
        max_staleness_ms: int | None,
        deadline_ms: int,
    ) -> Iterator[OpenedFile]:
        """See `service.http.node.Files.open`; nothing is ever waited for here."""
        del max_staleness_ms, deadline_ms
        with self._pool.lend(self._path(file)) as reader, reader.snapshot():
            if min_version is not None and reader.version < min_version:
                raise ReplicaBehind(
                    f"the index is at version {reader.version}, {min_version} was asked for",
                    version=reader.version,
                    age_ms=0,
                    hint="This version does not exist yet; take it from an answer of this service.",
                )
            yield OpenedFile(reader, 0, round(time.time() * 1000))

    def apply(
        self,
        file: str,
        operations: Sequence[Operation],
        *,
        idempotency_key: str | None,
        body_digest: bytes,
        durability: Literal["local", "replicated"],
    ) -> BatchResult:
        """See `service.http.node.Tenants.apply`."""
        begun = time.monotonic()
        self._guard.check()
        self._check_mine(file)
        self._publisher.check_keeping_up(self._settings.staleness_ms)
        self._check_size(self._path(file))
        with _disk_errors(), self._writer(file) as writer:
            self._check_mine(file)  # again, with the lock that a move needs as well
            before = writer.version
            result = writer.apply(
                operations, idempotency_key=idempotency_key, body_digest=body_digest
            )
        if not result.replayed and (result.version > before or result.kept):
            self._publisher.changed(file)
            self.listener(file)
        if durability == "replicated":
            self._publisher.replicate_now(
                file, result.version, timeout_ms=self._settings.replicate_ms
            )
        self._guard.check()
        self.applied(result, durability, time.monotonic() - begun)
        return result

    def own_files(self) -> list[str]:
        """The tenants' files that may be written here now."""
        return [file for file in local_files(self._data) if self._is_own(file)]

    @contextmanager
    def vectors(self, file: str) -> Iterator[VectorWriter]:
        """A file's vectors, to be written in the block; batches of this file wait.

        Raises:
            NotFound, NotTheWriter, Unavailable, IndexFileError: as for `apply`.
        """
        self._guard.check()
        self._check_mine(file)
        with _disk_errors(), self._writer(file) as writer:
            self._check_mine(file)
            before = writer.vectors.commits
            yield writer.vectors
            changed = writer.vectors.commits > before
        if changed:
            self._publisher.changed(file)

    def create_tenant(self, name: str) -> Tenant:
        """Add a tenant on this shard to the registry, and lay out its file.

        Raises:
            InvalidRequest: the name is not one.
            Conflict: the name is taken.
        """
        self._guard.check()
        assert self._registry is not None
        tenant = self._registry.create_tenant(name)
        self.lay_out(tenant)
        self._guard.check()
        return tenant

    def lay_out_missing(self) -> None:
        """Make the files of tenants whose creation was cut short.

        Only files that were never announced can be missing here: at boot, before this, everything
        announced was restored (see `replica/restore.py`).
        """
        if self._registry is None:
            return  # the files of other shards are laid out by `moves`
        for placed in Placements(self._registry).all():
            tenant = placed.tenant
            if placed.shard != MAIN or placed.moving_to or tenant.state is not TenantState.ACTIVE:
                continue
            if latest_epoch(self._data, tenant.file) is None:
                self.lay_out(tenant)

    @contextmanager
    def still(self, file: str) -> Iterator[None]:
        """Hold a file that nobody writes, so that it can be replaced or removed; batches wait.

        Raises:
            Unavailable: the shard is not ours any more.
        """
        self._guard.check()
        entry = self._enter(file)
        try:
            with entry.lock:
                if entry.writer is not None:
                    entry.writer.close()
                    entry.writer = None
                yield
        finally:
            self._leave(entry)
            self._pool.sweep()
            self.listener(file)

    def health(self) -> dict[str, Any]:
        """Able to take batches: the shard is ours and replication keeps up."""
        lag_ms, silent_ms = self._publisher.lag_ms(), self._publisher.silent_ms()
        reasons = []
        if (lost := self._guard.reason()) is not None:
            reasons.append(f"this writer lost its shard: {lost}")
        if lag_ms > self._settings.staleness_ms:
            reasons.append(f"a commit has waited {lag_ms} ms for the object store")
        if silent_ms > self._settings.staleness_ms:
            reasons.append(f"nothing was published for {silent_ms} ms beyond the heartbeat")
        return {
            "ready": not reasons,
            "reasons": reasons,
            "publish_lag_ms": lag_ms,
            "silent_ms": silent_ms,
            "put_ms": self._publisher.put_ms,
            "publisher": self._publisher.counters.snapshot(),
            "lease": self._guard.health() | {"fenced": self._publisher.counters["fenced"]},
        }

    def writer_url(self, shard: str) -> str | None:
        """See `service.http.node.Tenants.writer_url`."""
        return None if self._shards is None else self._shards.url(shard)

    def lay_out(self, tenant: Tenant) -> None:
        """Make a new tenant's empty file. Nobody may have one of it yet."""
        # Under an epoch of our own: a former owner may have laid out the same file.
        epoch = max(tenant.epoch, first_epoch(self._guard.tenure.term))
        path = writer_path(self._data, tenant.file, epoch)
        path.parent.mkdir(parents=True, exist_ok=True)
        with _disk_errors(), self._writer(tenant.file, path):
            pass
        self._publisher.changed(tenant.file)

    # --- inside

    def _is_own(self, file: str) -> bool:
        if self._shards is None:
            assert self._registry is not None
            return any(tenant.file == file for tenant in self._registry.tenants())
        try:
            self._shards.check(file)
        except MemlaneError:
            return False  # another shard's, on its way there, or no tenant's at all
        return True

    def _check_mine(self, file: str) -> None:
        if self._shards is not None:
            self._shards.check(file)

    def _path(self, file: str) -> Path:
        """The file's newest epoch.

        Raises:
            NotFound: this node does not own it, or it was not laid out yet.
        """
        epoch = latest_epoch(self._data, file)
        if epoch is None:
            raise NotFound("this writer does not hold the tenant's file")
        return writer_path(self._data, file, epoch)

    def _check_size(self, path: Path) -> None:
        size = path.stat().st_size
        if size > self._settings.tenant_bytes:
            raise TooLarge(
                f"the tenant's file holds {size} bytes, the most is {self._settings.tenant_bytes}",
                limit="tenant_bytes",
                hint="Delete documents, or raise the limit.",
            )

    @contextmanager
    def _writer(self, file: str, new: Path | None = None) -> Iterator[IndexWriter]:
        """The file's only writer, for the block; it stays open within `open_tenants`.

        Which path that is must be asked with the lock held: a restore gives the file a new one.
        """
        entry = self._enter(file)
        try:
            with entry.lock:
                if entry.writer is None:
                    entry.writer = IndexWriter(
                        new or self._path(file),
                        documents_most=self._settings.tenant_documents,
                        idempotency_keys_most=self._settings.idempotency_keys,
                        cache_kib=self._settings.sqlite_writer_cache_kib,
                    )
                yield entry.writer
        finally:
            self._leave(entry)

    def _enter(self, file: str) -> _Open:
        with self._lock:
            entry = self._open.setdefault(file, _Open())
            self._open.move_to_end(file)
            entry.users += 1
            return entry

    def _leave(self, entry: _Open) -> None:
        idle: list[_Open] = []
        with self._lock:
            entry.users -= 1
            surplus = len(self._open) - self._settings.open_tenants
            oldest = [file for file, one in self._open.items() if not one.users]
            idle.extend(self._open.pop(file) for file in oldest[: max(surplus, 0)])
        for one in idle:
            if one.writer is not None:
                one.writer.close()


@contextmanager
def _disk_errors() -> Iterator[None]:
    """SQLite's errors about the machine, as ours; the batch was rolled back."""
    try:
        yield
    except apsw.FullError as error:
        raise Unavailable("the writer's disk is full", retry_after_s=30) from error
    except apsw.BusyError as error:
        raise Unavailable("the tenant's file is busy") from error
    except apsw.CorruptError as error:
        raise IndexCorrupt("the tenant's file is damaged") from error
