"""The writer role: own the shard, or stand by until it can be owned.

Any number of writers may run for one shard, each with a data folder of its own. The supervising
process (this class) holds the folder's lock and contends for the shard's lease; with it, it runs an
`Ownership`: Litestream and one web process that takes batches. Without it, or after losing it, a
small server on the same port says so.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from service.app import create_writer_app
from service.errors import MemlaneError, SetupError
from service.node.lifecycle import Lifecycle
from service.node.tenants import Tenants
from service.replica import (
    Canary,
    FolderLock,
    Lease,
    LeaseGuard,
    LitestreamSupervisor,
    Publisher,
    Tenure,
    current_path,
    lock_writer,
    open_store,
    store_url,
)
from service.replica.counters import Counters
from service.replica.fencing import announced
from service.replica.keeper import lease_file
from service.replica.tenure import read_note
from service.roles.folders import Folders
from service.roles.ownership import Ownership, check_operator_key
from service.roles.standby import StandbyServer
from service.serve import ServeOptions, check_port
from service.settings import Settings
from service.tenancy.registry import Registry
from service.tenancy.secret import load_secret
from service.tenancy.view import RegistryView

#: One shard for now; a fleet names its own.
SHARD = "main"
#: A standby looks at the lease this often; a part of the lease, within bounds.
LOOKS_A_LEASE = 10
LOOK_MOST_MS = 1_000
#: The pause after a take-over that failed.
FAILED_MS = 5_000

_log = logging.getLogger(__name__)


class WriterRole:
    """A writer on this machine. `start`, `poll` and `stop` belong to one thread."""

    def __init__(
        self, folders: Folders, *, store: str, host: str, port: int, settings: Settings
    ) -> None:
        self.url = f"http://{host}:{port}"
        self._folders = folders
        self._store = open_store(store_url(store), settings)
        self._settings = settings
        self._options = ServeOptions(
            factory="service.roles.writer:create_app",
            config={"data": str(folders.data), "store": self._store.url},
            host=host,
            port=port,
            # Exactly one process commits: it alone knows what changed (see replica/publish.py).
            workers=1,
            drain_ms=settings.drain_ms,
        )
        self._lock: FolderLock | None = None
        self._counters = Counters()
        self._litestream: LitestreamSupervisor | None = None
        self._lease: Lease | None = None
        self._ownership: Ownership | None = None
        self._standby: StandbyServer | None = None
        self._why = ""
        self._next_look = 0.0

    @property
    def owns(self) -> bool:
        """Does this writer own the shard and take batches?"""
        return self._ownership is not None

    def start(self) -> None:
        """Bring the role up: as owner, until it takes batches, or as standby.

        Raises:
            SetupError: the port or the folder is taken, Litestream is missing, a file cannot be
                written, the deployment's secret or an operator key is not here.
            ReplicationError: the object store fails, or lacks what it announced.
            Unavailable: something did not come up in time.
        """
        data = self._folders.data
        check_port(self._options.host, self._options.port)
        self._lock = lock_writer(data)
        lease_file(data).unlink(missing_ok=True)
        self._litestream = LitestreamSupervisor(
            data,
            self._store,
            sync_interval_ms=self._settings.sync_interval_ms,
            backoff_ms=self._settings.child_backoff_ms,
        )
        known, _ = announced(self._store, SHARD)
        if known is not None and known.registry is not None:
            load_secret(self._folders.secret)
            check_operator_key(self._folders)
        self._lease = Lease(
            self._store,
            shard=SHARD,
            owner=read_note(data).new_owner(),
            lease_ms=self._settings.lease_ms,
            counters=self._counters,
        )
        if not self._contend():
            self._stand_by()

    def poll(self) -> None:
        """Look after the children, or for the lease; call about every 100 ms."""
        if self._ownership is not None:
            if self._ownership.poll():
                return
            self._ownership.abandon()
            self._ownership = None
            self._why = "it lost the shard to another writer"
            _log.error("this writer lost its shard; standing by")
        self._stand_by()
        if time.monotonic() < self._next_look:
            return
        look_ms = min(self._settings.lease_ms / LOOKS_A_LEASE, LOOK_MOST_MS)
        self._next_look = time.monotonic() + look_ms / 1_000
        try:
            self._contend()
        except MemlaneError as error:
            self._why = f"taking the shard over failed: {error.detail}"
            _log.error("%s", self._why)
            self._next_look = time.monotonic() + FAILED_MS / 1_000

    def stop(self) -> None:
        """Finish batches under way, let Litestream upload what is left, release everything."""
        if self._ownership is not None:
            self._ownership.drain()
        if self._standby is not None:
            self._standby.close()
        if self._lock is not None:
            self._lock.close()

    # --- inside

    def _contend(self) -> bool:
        """Take the shard if it is free now, and bring everything up."""
        assert self._lease is not None
        assert self._litestream is not None
        if (tenure := self._lease.acquire()) is None:
            return False
        if self._standby is not None:
            self._standby.close()
            self._standby = None
        ownership = Ownership(
            self._folders,
            self._store,
            shard=SHARD,
            lease=self._lease,
            tenure=tenure,
            litestream=self._litestream,
            web=self._options,
            settings=self._settings,
        )
        try:
            ownership.start()
        except BaseException:
            ownership.abandon()
            raise
        self._ownership = ownership
        self._why = ""
        return True

    def _stand_by(self) -> None:
        """Answer on the port; tried again at the next poll while a killed process still has it."""
        if self._standby is None:
            try:
                self._standby = StandbyServer(
                    self._options.host, self._options.port, self._standby_health
                )
            except SetupError as error:
                _log.warning("a standby that cannot be asked: %s", error.detail)

    def _standby_health(self) -> dict[str, Any]:
        """Of a standby, for `/readyz`. Called from the server's threads."""
        lease = self._lease
        holder = lease.holder if lease is not None else None
        reasons = ["standby"]
        if holder is not None and not holder.released:
            reasons[0] += f": shard {SHARD} is owned by a writer on {holder.host}"
        if self._why:
            reasons.append(self._why)
        return {
            "ready": False,
            "role": "writer",
            "reasons": reasons,
            "lease": {
                "term": 0 if holder is None else holder.term,
                "left_ms": 0,
                **self._counters.snapshot(),
            },
        }


def create_app(config: Mapping[str, Any]) -> ASGIApp:
    """The web process's application; gunicorn calls this after the fork."""
    settings = Settings.from_environment()
    folders = Folders(Path(config["data"]))
    registry_file = (folders.writer / "registry").read_text().strip()
    guard = LeaseGuard(folders.data, Tenure(config["term"], config["owner"]))
    store = open_store(config["store"], settings)
    publisher = Publisher(
        folders.data,
        store,
        shard=SHARD,
        registry=registry_file,
        heads_interval_ms=settings.heads_interval_ms,
        heads_heartbeat_ms=settings.heads_heartbeat_ms,
        tenure=guard.tenure,
    )

    def registry_changed() -> None:
        publisher.changed(registry_file)
        guard.check()  # a change of the registry is not acknowledged either without the lease

    secret = load_secret(folders.secret)
    path = current_path(folders.data, registry_file)
    registry = Registry(path, secret, changed=registry_changed)
    tenants = Tenants(
        folders.data, registry=registry, publisher=publisher, guard=guard, settings=settings
    )
    lifecycle = Lifecycle(
        folders.data,
        store,
        tenants=tenants,
        registry=registry,
        registry_file=registry_file,
        publisher=publisher,
        settings=settings,
        term=guard.tenure.term,
    )
    resources: list[AbstractContextManager[object]] = [registry, tenants]
    canary = Canary(
        folders.data,
        SHARD,
        changed=publisher.changed,
        interval_ms=settings.canary_interval_ms,
        term=guard.tenure.term,
        may_write=lambda: guard.reason() is None,
    )
    resources.append(_running(publisher, tenants, canary, settings.drain_ms))
    resources.append(lifecycle)
    return create_writer_app(
        settings=settings,
        tenants=tenants,
        registry=registry,
        lifecycle=lifecycle,
        view=RegistryView(lambda: path, secret),
        counters=folders.writer / "counters",
        resources=resources,
    )


@contextmanager
def _running(
    publisher: Publisher, tenants: Tenants, canary: Canary, drain_ms: int
) -> Iterator[None]:
    publisher.start()
    tenants.lay_out_missing()
    canary.start()
    try:
        yield
    finally:
        canary.stop()
        publisher.stop(drain_ms)
