"""A tenant's life after its creation: suspended, resumed, deleted, restored to a moment."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from service.errors import (
    Conflict,
    IndexFileError,
    InvalidRequest,
    NotFound,
    ReplicationError,
    Unavailable,
)
from service.index import schema
from service.index.connection import open_reader
from service.index.copies import stamp_next
from service.node.erasing import Eraser
from service.node.tenants import Tenants
from service.replica import ObjectStore, Publisher, current_path, latest_epoch, writer_path
from service.replica.fencing import announced
from service.replica.handover import head_of
from service.replica.history import Moment, rebuild_at
from service.replica.litestream import LitestreamClient
from service.replica.names import next_epoch
from service.replica.stamps import read_stamps
from service.settings import Settings
from service.tenancy.deletions import Status
from service.tenancy.placements import MAIN, Placements, check_shard, place
from service.tenancy.records import Rewound, Tenant, TenantState
from service.tenancy.registry import Registry, now_ms

UNREGISTER_MS = 10_000
MOVE_LOOK_S = 0.05

_log = logging.getLogger(__name__)


class _Turns:
    """One operation a tenant at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken: set[str] = set()

    def take(self, file: str) -> None:
        with self._lock:
            if file in self._taken:
                raise Conflict(
                    "another operation on this tenant is under way", hint="Retry when it is over."
                )
            self._taken.add(file)

    def give_back(self, file: str) -> None:
        with self._lock:
            self._taken.discard(file)


class Lifecycle:
    """What an operator does with the tenants of one writer. Fits any thread; calls may block.

    Enter it once the publisher runs.
    """

    def __init__(
        self,
        data: Path,
        store: ObjectStore,
        *,
        tenants: Tenants,
        registry: Registry,
        registry_file: str,
        publisher: Publisher,
        settings: Settings,
        term: int = 0,
    ) -> None:
        """Prepare.

        Args:
            data: the writer's data folder.
            store: where replicas lie.
            tenants: the files it owns.
            registry: which tenants there are.
            registry_file: the registry's own file.
            publisher: announces them.
            settings: the limits.
            term: of the ownership this writer has, see `replica/names.py`.
        """
        self._data = data.absolute()
        self._store = store
        self._tenants = tenants
        self._registry = registry
        self._publisher = publisher
        self._settings = settings
        self._term = term
        self._drafts = self._data / "writer" / "drafts"
        self._turns = _Turns()
        self._placements = Placements(registry)
        self._deciding = threading.Lock()  # a tenant is not begun to be deleted and moved at once
        self._registry_file = registry_file
        self._eraser = Eraser(
            self._data,
            store,
            tenants=tenants,
            registry=registry,
            registry_file=registry_file,
            publisher=publisher,
            turns=self._turns,
            settings=settings,
        )

    def __enter__(self) -> Self:
        shutil.rmtree(self._drafts, ignore_errors=True)
        self._eraser.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._eraser.stop()

    # --- what there is

    def tenants(self) -> list[Status]:
        """All tenants, deleted ones too, oldest first."""
        deletions = {each.tenant.id: each for each in self._eraser.deletions.all()}
        return [
            Status(
                placed.tenant,
                deletions.get(placed.tenant.id),
                self._eraser.trouble(placed.tenant.name),
                placed,
            )
            for placed in self._placements.all()
        ]

    def tenant(self, name: str) -> Status:
        """One tenant.

        Raises:
            NotFound: there is none of this name, nor was there.
        """
        placed = self._placements.find(name)
        deletion = self._eraser.deletions.find(name)
        return Status(placed.tenant, deletion, self._eraser.trouble(name), placed)

    # --- shards

    def create(self, name: str, shard: str = MAIN) -> Status:
        """Add a tenant; on another shard, its writer lays out the file when it hears of it.

        Raises:
            InvalidRequest: the name is not one, or no writer of the shard ever ran.
            Conflict: the name is taken.
        """
        if shard == MAIN:
            self._tenants.create_tenant(name)
            return self.tenant(name)
        self._check_shard(shard)
        self._registry.create_tenant(
            name, also=lambda connection, made: place(connection, made, shard, None, None)
        )
        return self.tenant(name)

    def move(self, name: str, to: str) -> Status:
        """Have another shard's writer take a tenant over, and wait a while for it; see `moves`.

        It goes on in the background until it is done, whatever happens to this call or a writer.

        Raises:
            NotFound: there is no such tenant.
            InvalidRequest: no writer of the shard ever ran.
            Conflict: it is deleted, moves somewhere else, or something else is done with it now.
            ReplicationError: the store failed.
            Unavailable: the registry is not replicated in time; the move goes on all the same.
        """
        self._check_shard(to)
        known = self._placements.find(name)
        with self._turn(known.tenant):
            begins = known.moving_to is None and known.shard != to
            if begins and head_of(self._store, to, known.tenant.file) is not None:
                raise Conflict(
                    f"shard {to} has not let go of tenant {name} yet after a former move",
                    hint="Retry in some seconds, with a writer of that shard running.",
                )
            with self._deciding:
                self._placements.begin(name, to)
        patience_ms = self._settings.replicate_ms
        self._publisher.replicate_now(self._registry_file, self._registry.version, patience_ms)
        deadline = time.monotonic() + self._settings.erase_wait_ms / 1_000
        while self._placements.find(name).moving_to and time.monotonic() < deadline:
            time.sleep(MOVE_LOOK_S)
        return self.tenant(name)

    # --- suspend, resume, delete

    def suspend(self, name: str) -> Status:
        """Refuse a tenant's keys, here at once and on readers within the staleness bound.

        Raises:
            NotFound: there is no such tenant.
            Conflict: it is deleted.
        """
        return self._set_state(name, TenantState.SUSPENDED)

    def resume(self, name: str) -> Status:
        """Take a tenant's keys again.

        Raises:
            NotFound: there is no such tenant.
            Conflict: it is deleted.
        """
        return self._set_state(name, TenantState.ACTIVE)

    def delete(self, name: str) -> Status:
        """Delete a tenant for good, and wait a while for the receipt. Again: the same receipt.

        Its keys stop at once. The rest goes on in the background until it is done, whatever
        happens to this call or this process.

        Raises:
            NotFound: there is no such tenant.
            Conflict: it is on another shard, or moving to one.
        """
        with self._deciding:
            if self._eraser.deletions.find(name) is None:
                self._check_main(name)
                holdings = self._holdings(self._registry.tenant(name).file)
                self._eraser.deletions.begin(name, holdings)
        self._eraser.wake()
        self._eraser.wait(name, self._settings.erase_wait_ms)
        return self.tenant(name)

    # --- restore

    def restore(self, name: str, at_ms: int, *, dry_run: bool) -> Rewound:
        """Bring a tenant back to the last batch committed at or before a moment.

        Everything acknowledged until now is in the store first, so this can be undone the same way.
        Batches of the tenant wait while the file is exchanged; its version grows.

        Args:
            name: the tenant's.
            at_ms: the moment, Unix ms.
            dry_run: only say what it would be.

        Raises:
            NotFound: there is no such tenant, or the history does not go back so far.
            InvalidRequest: the moment is still to come.
            Conflict: it is deleted, on another shard, or something else is done with it now.
            Unavailable: the store does not take what was committed last, or the disk is full.
            ReplicationError: the store failed or holds damaged objects.
        """
        tenant = self._registry.tenant(name)
        if at_ms > now_ms():
            raise InvalidRequest("`at` is still to come", hint="Check this machine's clock.")
        with self._turn(tenant):
            self._check_main(name)
            self._secured(tenant.file)
            self._drafts.mkdir(parents=True, exist_ok=True)
            found = rebuild_at(
                self._store, tenant.file, at_ms, self._drafts, created_at=tenant.created_at
            )
            try:
                documents = _holdings(found.path)["documents"]
                if dry_run:
                    version = self._version(tenant.file)
                else:
                    version = self._exchange(tenant.file, found)
            finally:
                for path in self._drafts.glob(f"{found.path.name}*"):
                    path.unlink()
            return Rewound(
                tenant=name,
                dry_run=dry_run,
                from_version=version,
                version=version + 1,
                at=at_ms,
                restored_to=found.stamps.committed_at or tenant.created_at,
                restored_version=found.stamps.version,
                documents=documents,
                announced=not dry_run and self._announced(tenant.file, version + 1),
            )

    # --- inside

    def _check_shard(self, shard: str) -> None:
        if announced(self._store, check_shard(shard))[0] is None:
            raise InvalidRequest(
                f"there is no shard {shard}", hint="Start `memlane writer --shard` for it first."
            )

    def _check_main(self, name: str) -> None:
        """Only here are files erased and exchanged."""
        placed = self._placements.find(name)
        if placed.moving_to is not None:
            raise Conflict(
                f"tenant {name} is moving to shard {placed.moving_to}",
                hint="Retry when it is there.",
            )
        if placed.shard != MAIN:
            raise Conflict(
                f"tenant {name} is on shard {placed.shard}; this is done on shard {MAIN}",
                hint=f"Run `memlane tenant move {name} --to {MAIN}` first.",
            )

    def _set_state(self, name: str, state: TenantState) -> Status:
        if self._registry.tenant(name).state is not state:
            self._registry.set_state(name, state)
        return self.tenant(name)

    @contextmanager
    def _turn(self, tenant: Tenant) -> Iterator[None]:
        self._turns.take(tenant.file)
        try:
            if self._registry.tenant(tenant.name).state is TenantState.DELETED:
                raise Conflict(f"tenant {tenant.name} is deleted", hint="Create a new tenant.")
            yield
        finally:
            self._turns.give_back(tenant.file)

    def _version(self, file: str) -> int:
        return read_stamps(current_path(self._data, file)).version

    def _secured(self, file: str) -> None:
        """Batches under way end, and all that was committed is in the store."""
        with self._tenants.still(file):
            version = self._version(file)
        self._publisher.replicate_now(file, version, self._settings.replicate_ms)

    def _exchange(self, file: str, found: Moment) -> int:
        """Put a rebuilt file in the place of the present one, as its next epoch.

        Returns:
            The version that the former one had.
        """
        with self._tenants.still(file):
            epoch = latest_epoch(self._data, file) or 0
            old = writer_path(self._data, file, epoch)
            version = read_stamps(old).version
            self._publisher.replicate_now(file, version, self._settings.replicate_ms)
            stamp_next(found.path, version + 1)
            new = writer_path(self._data, file, next_epoch(self._term, epoch, found.epoch))
            with found.path.open("rb") as stream:
                os.fsync(stream.fileno())
            found.path.rename(new)  # from here on the file is the restored one, also after a crash
            self._retire(file, old)
        return version

    def _retire(self, file: str, old: Path) -> None:
        try:
            LitestreamClient(self._data).unregister(old, UNREGISTER_MS)
        except ReplicationError as error:
            # The exchange stands; Litestream notices by itself that the file is gone.
            _log.warning("litestream does not let go of %s/%s: %s", file, old.name, error.detail)
        for suffix in ("-shm", "-wal", ""):
            old.with_name(old.name + suffix).unlink(missing_ok=True)
        kept = self._data / "writer" / "litestream-meta" / file / f"{old.name}-litestream"
        shutil.rmtree(kept, ignore_errors=True)

    def _announced(self, file: str, version: int) -> bool:
        try:
            self._publisher.replicate_now(file, version, self._settings.replicate_ms)
        except Unavailable as error:
            _log.warning("%s is restored and not announced yet: %s", file, error.detail)
            return False
        return True

    def _holdings(self, file: str) -> dict[str, Any]:
        try:
            return _holdings(current_path(self._data, file))
        except (NotFound, IndexFileError):
            return {"documents": None, "version": None}


def _holdings(path: Path) -> dict[str, Any]:
    """How many documents a file of any release holds, and its version."""
    connection = open_reader(path)
    try:
        meta = schema.read_meta(connection)
    finally:
        connection.close()
    return {"documents": meta["docs"], "version": meta["version"]}
