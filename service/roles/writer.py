"""The writer role: own the shard, or stand by until it can be owned.

Any number of writers may run for one shard, each with a data folder of its own. The supervising
process (this class) holds the folder's lock and contends for the shard's lease; with it, it runs an
`Ownership`: Litestream and one web process that takes batches. Without it, or after losing it, a
small server on the same port says so.
"""

from __future__ import annotations

import logging
import time
from typing import Any

from service.errors import MemlaneError, SetupError
from service.replica import (
    FolderLock,
    Lease,
    LitestreamSupervisor,
    lock_writer,
    open_store,
    store_url,
)
from service.replica.counters import Counters
from service.replica.fencing import announced
from service.replica.keeper import lease_file
from service.replica.tenure import read_note
from service.roles.commits import create_app as create_app
from service.roles.folders import Folders
from service.roles.ownership import Ownership, check_operator_key
from service.roles.standby import StandbyServer
from service.serve import ServeOptions, check_port
from service.settings import Settings
from service.tenancy.placements import MAIN, check_shard
from service.tenancy.secret import load_secret

SHARD = MAIN
"""The shard of a writer that is not told another."""
#: A standby looks at the lease this often; a part of the lease, within bounds.
LOOKS_A_LEASE = 10
LOOK_MOST_MS = 1_000
#: The pause after a take-over that failed.
FAILED_MS = 5_000

_log = logging.getLogger(__name__)


class WriterRole:
    """A writer on this machine. `start`, `poll` and `stop` belong to one thread."""

    def __init__(
        self,
        folders: Folders,
        *,
        store: str,
        host: str,
        port: int,
        settings: Settings,
        shard: str = MAIN,
        public_url: str | None = None,
        embedder: str | None = None,
    ) -> None:
        """Prepare.

        Args:
            folders: this writer's data.
            store: the object store's URL; see `replica/stores.py`.
            host: the address to listen on.
            port: the port to listen on.
            settings: the limits.
            shard: which tenants' files it owns.
            public_url: where others reach it, announced; None for what it listens on.
            embedder: `host:port` of the embedding sidecar; None where there is none.

        Raises:
            InvalidRequest: that is no shard's name.
        """
        self.url = f"http://{host}:{port}"
        self._shard = check_shard(shard)
        self._folders = folders
        self._store = open_store(store_url(store), settings)
        self._settings = settings
        self._options = ServeOptions(
            factory="service.roles.writer:create_app",
            config={
                "data": str(folders.data),
                "store": self._store.url,
                "shard": self._shard,
                "url": public_url or self.url,
                "embedder": embedder,
            },
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
        known, _ = announced(self._store, self._shard)
        if self._shard != MAIN:
            load_secret(self._folders.secret)
        elif known is not None and known.registry is not None:
            load_secret(self._folders.secret)
            check_operator_key(self._folders)
        self._lease = Lease(
            self._store,
            shard=self._shard,
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
            shard=self._shard,
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
            reasons[0] += f": shard {self._shard} is owned by a writer on {holder.host}"
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
