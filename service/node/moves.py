"""Tenants of one shard come, go and are laid out, as the registry says; see `replica/handover.py`.

Every writer runs one such thread. Its steps are idempotent and what they depend on is in the store
or the registry, so after a crash or a takeover the next owner goes on where the last one stopped.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Self

from service.errors import MemlaneError, ReplicationError
from service.node.shardmap import ShardMap
from service.node.tenants import Tenants
from service.replica import ObjectStore, Publisher, current_path, latest_epoch
from service.replica.erase import let_go
from service.replica.fencing import announced
from service.replica.handover import adopt, announced_anywhere, head_of
from service.replica.log_gate import LogGate
from service.replica.restore import set_aside
from service.replica.stamps import read_stamps
from service.settings import Settings
from service.tenancy.placements import MAIN, Placement, Placements
from service.tenancy.records import TenantState
from service.tenancy.view import RegistryView

LOOK_S = 0.25
STOP_S = 5.0
#: How often the addresses of the other shards' writers are looked up.
URLS_S = 5.0

_log = logging.getLogger(__name__)


class Mover:
    """One writer's thread for all this. Enter it once the publisher runs."""

    def __init__(
        self,
        data: Path,
        store: ObjectStore,
        *,
        shards: ShardMap,
        tenants: Tenants,
        publisher: Publisher,
        view: RegistryView,
        placements: Placements | None,
        secure: Callable[[], None] = lambda: None,
        settings: Settings,
        term: int = 0,
    ) -> None:
        """Prepare.

        Args:
            data: the writer's data folder.
            store: where replicas lie.
            shards: what this writer may write, and its shard's name.
            tenants: its files.
            publisher: announces them.
            view: the registry, maybe a replica.
            placements: the registry's write side, on the shard that has it.
            secure: waits until the registry of this machine is replicated; may raise.
            settings: the limits.
            term: of the ownership this writer has.
        """
        self._data = data.absolute()
        self._store = store
        self._shards = shards
        self._shard = shards.shard
        self._tenants = tenants
        self._publisher = publisher
        self._view = view
        self._placements = placements
        self._secure = secure
        self._settings = settings
        self._term = term
        self._gate = LogGate()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._main, name="mover", daemon=True)
        self._settled: int | None = None
        self._here: set[str] = set()
        self._urls_due = 0.0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(STOP_S)

    # --- the thread

    def _main(self) -> None:
        while not self._ending.wait(LOOK_S):
            try:
                self._look()
            except MemlaneError as error:
                self._complain(error.detail)
            except Exception:
                _log.exception("tenants are not moved or laid out")

    def _complain(self, detail: str) -> None:
        if self._gate.opens():
            _log.warning("tenants are not moved or laid out yet: %s", detail)

    def _look(self) -> None:
        version, placed = self._view.placements()
        self._learn_urls(placed)
        sealed = self._publisher.sealed_files()
        if version == self._settled and not sealed:
            return
        self._settled = None
        settled = True
        for each in placed:
            if self._ending.is_set():
                return
            try:
                settled = self._settle(each, sealed) and settled
            except MemlaneError as error:
                settled = False
                self._complain(error.detail)
        if settled:
            self._settled = version

    def _settle(self, placed: Placement, sealed: dict[str, str]) -> bool:
        """Do what is to be done for one tenant; whether nothing is left of it."""
        file = placed.tenant.file
        if placed.tenant.state is TenantState.DELETED:
            return True
        if placed.moving_to is not None:
            self._move(placed, sealed)
            return False
        if placed.shard == self._shard:
            return self._have(placed)
        if file in sealed:
            self._leave(placed)
        return True

    def _have(self, placed: Placement) -> bool:
        """See that a tenant of ours has its file; a new one's is made."""
        file = placed.tenant.file
        if file in self._here:
            return True
        if latest_epoch(self._data, file) is None:
            # What we know of the registry may be old: a file that anybody announces is not new.
            if announced_anywhere(self._store, file):
                return False
            self._tenants.lay_out(placed.tenant)
        self._here.add(file)
        return True

    def _move(self, placed: Placement, sealed: dict[str, str]) -> None:
        file = placed.tenant.file
        if placed.shard == self._shard and file not in sealed and self._has(file):
            self._seal(placed)
        elif placed.moving_to == self._shard:
            self._adopt(placed)
        elif placed.shard != self._shard and file in sealed:
            self._leave(placed)
        if self._placements is not None and self._arrived(placed):
            self._placements.arrive(placed)

    def _has(self, file: str) -> bool:
        return latest_epoch(self._data, file) is not None

    def _seal(self, placed: Placement) -> None:
        """The source's part: the last commit is announced, and that it was the last."""
        assert placed.moving_to is not None
        file, patience_ms = placed.tenant.file, self._settings.replicate_ms
        self._secure()  # what the registry says must outlive this machine before it is relied on
        with self._tenants.still(file):
            version = read_stamps(current_path(self._data, file)).version
            self._publisher.replicate_now(file, version, patience_ms)
            self._publisher.seal(file, placed.moving_to, patience_ms)
        _log.info("%s is sealed for shard %s at version %d", file, placed.moving_to, version)

    def _adopt(self, placed: Placement) -> None:
        """The target's part: what was sealed is here under an epoch of ours, and announced."""
        file = placed.tenant.file
        head = head_of(self._store, placed.shard, file)
        if head is None or head.moved_to != self._shard:
            return
        with self._tenants.still(file):
            version = adopt(self._data, self._store, file, head, self._term)
        self._publisher.adopt(file)
        self._publisher.replicate_now(file, version, self._settings.replicate_ms)
        self._here.add(file)

    def _arrived(self, placed: Placement) -> bool:
        """Whether the target announces the file, so that the registry may name it."""
        assert placed.moving_to is not None
        there = head_of(self._store, placed.moving_to, placed.tenant.file)
        here = head_of(self._store, placed.shard, placed.tenant.file)
        if there is None:
            return False
        # The source may be gone already: a registry restored to before this was noted.
        return here is None or (here.moved_to == placed.moving_to and there.epoch > here.epoch)

    def _leave(self, placed: Placement) -> None:
        """The source's last part: somebody else has the file, so it goes from here.

        It goes from the disk first: a local file that is not announced would be taken for new.
        """
        file = placed.tenant.file
        if head_of(self._store, placed.shard, file) is None:
            raise ReplicationError(f"{file} is not announced by shard {placed.shard}")
        with self._tenants.still(file):
            let_go(self._data, file, time.monotonic() + self._settings.erase_ms / 1_000)
            if (epoch := latest_epoch(self._data, file)) is not None:
                set_aside(self._data, file, epoch)
        self._here.discard(file)
        self._publisher.forget(file, self._settings.replicate_ms)
        _log.info("%s is on shard %s now", file, placed.shard)

    def _learn_urls(self, placed: list[Placement]) -> None:
        if time.monotonic() < self._urls_due:
            return
        self._urls_due = time.monotonic() + URLS_S
        for shard in {MAIN, *(each.shard for each in placed)} - {self._shard}:
            known, _ = announced(self._store, shard)
            if known is not None:
                self._shards.learn({shard: known.url})
