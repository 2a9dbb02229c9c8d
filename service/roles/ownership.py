"""Everything that runs while this machine owns the shard, from the lease to the web process.

Order at start: keep the lease, fence and restore, Litestream up and watching every file, and only
then the process that takes batches. There are two ways out. `drain` is the polite one: batches
finish, everything is uploaded and announced, the lease is released. `abandon` is for a shard that
is lost: everything is killed at once, for what it would still write nobody will read.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import signal

from service.errors import SetupError, Unavailable
from service.replica import (
    Child,
    Lease,
    LeaseKeeper,
    LitestreamSupervisor,
    ObjectStore,
    Tenure,
    current_path,
    first_epoch,
    latest_epoch,
    local_files,
    new_file,
    prepare,
    writer_path,
)
from service.replica.fencing import announced
from service.replica.retire import OldEpochs
from service.replica.watchdog import Watchdog
from service.roles.folders import Folders, write_private
from service.roles.shards import registry_follower
from service.roles.web import wait_answering, web_child
from service.serve import ServeOptions
from service.settings import Settings
from service.tenancy.placements import MAIN
from service.tenancy.registry import Registry
from service.tenancy.secret import load_or_create_secret, load_secret

START_MS = 120_000
KILLED_MS = 2_000

_log = logging.getLogger(__name__)


class Ownership:
    """One tenure's processes. All calls belong to one thread."""

    def __init__(
        self,
        folders: Folders,
        store: ObjectStore,
        *,
        shard: str,
        lease: Lease,
        tenure: Tenure,
        litestream: LitestreamSupervisor,
        web: ServeOptions,
        settings: Settings,
    ) -> None:
        """Prepare.

        Args:
            folders: the writer's data.
            store: the object store.
            shard: what is owned.
            lease: acquired just now; ours until `drain` or `abandon` returns.
            tenure: what acquiring it gave.
            litestream: not started yet.
            web: the process that takes batches; the tenure is added to its configuration.
            settings: the limits.
        """
        self._folders = folders
        self._store = store
        self._shard = shard
        self._tenure = tenure
        self._settings = settings
        self._options = web
        self._keeper = LeaseKeeper(lease, tenure, folders.data, lease_ms=settings.lease_ms)
        self._litestream = litestream
        self._watchdog = Watchdog(
            folders.data,
            litestream.child,
            silence_ms=settings.litestream_silence_ms,
            counters=lease.counters,
        )
        self._old_epochs = OldEpochs(
            store, shard, old_epochs_ms=settings.old_epochs_ms, counters=lease.counters
        )
        self._web: Child | None = None
        self._follower = None if shard == MAIN else registry_follower(folders, store.url, settings)

    def start(self) -> None:
        """Bring it all up, until it answers.

        Raises:
            SetupError: the port is taken, a file cannot be written, a key is missing.
            ReplicationError: the object store lacks what it announced.
            Unavailable: something did not come up in time, or the shard is lost already.
        """
        data = self._folders.data
        self._keeper.start()
        prepare(data, self._store, shard=self._shard, tenure=self._tenure)
        if self._follower is None:
            self._lay_out_registry()
        else:
            load_secret(self._folders.secret)
            self._follower.start()
        self._check_kept()
        self._litestream.start()
        watched = [current_path(data, file) for file in local_files(data)]
        self._litestream.wait_initialised(watched, START_MS)
        self._check_kept()
        log = self._folders.writer / "web.log"
        config = dict(self._options.config) | dataclasses.asdict(self._tenure)
        options = dataclasses.replace(self._options, config=config)
        self._web = web_child("writer", options, log=log, settings=self._settings)
        self._web.start()
        url = f"http://{options.host}:{options.port}"
        wait_answering(url, "/readyz", timeout_ms=START_MS, poll=self._look_after, log=log)
        self._old_epochs.start()

    def poll(self) -> bool:
        """Look after the processes; False when the shard is lost."""
        if self._keeper.lost:
            return False
        self._litestream.poll()
        if self._follower is not None:
            self._follower.poll()
        self._watchdog.poll()
        if self._web is not None:
            self._web.poll()
        return True

    def drain(self) -> None:
        """Finish batches under way, upload and announce what is left, release the lease."""
        drain_ms = self._settings.drain_ms
        if self._web is not None:
            self._web.stop(drain_ms)
        if self._follower is not None:
            self._follower.stop(drain_ms)
        self._litestream.drain(drain_ms)
        self._old_epochs.stop()
        self._keeper.stop(drain_ms)

    def abandon(self) -> None:
        """Kill everything, then let go of the lease if it is still ours."""
        for child in (self._web, self._follower, self._litestream.child):
            if child is None:
                continue
            if (pid := child.pid) is not None:
                # It leads a group of its own: gunicorn's workers must not outlive it.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(pid, signal.SIGKILL)
            child.stop(KILLED_MS)
        self._old_epochs.stop()
        self._keeper.stop(KILLED_MS)

    # --- inside

    def _look_after(self) -> None:
        self._check_kept()
        self.poll()

    def _check_kept(self) -> None:
        if self._keeper.lost:
            raise Unavailable("the shard was lost before it was up")

    def _lay_out_registry(self) -> None:
        """Find or make the registry, and its first operator key, before anybody else has it open.

        Its name is the announced one, the one noted here, or a new one.
        """
        data, note = self._folders.data, self._folders.writer / "registry"
        known, _ = announced(self._store, self._shard)
        file = None if known is None else known.registry
        if file is None and note.exists():
            file = note.read_text().strip()
        if file is None:
            file = new_file()
        epoch = latest_epoch(data, file) or first_epoch(self._tenure.term)
        path = writer_path(data, file, epoch)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_private(note, file.encode() + b"\n")
        with Registry(path, load_or_create_secret(self._folders.secret)) as registry:
            if any("operator" in key.scopes and not key.revoked_at for key in registry.keys(None)):
                check_operator_key(self._folders)
                return
            made = registry.create_key(None, ["operator"], label="first")
            write_private(self._folders.operator_key, made.key.text.encode() + b"\n")


def check_operator_key(folders: Folders) -> None:
    """See that this machine has an operator key of a deployment that exists.

    Raises:
        SetupError: it has none.
    """
    if not folders.operator_key.exists():
        raise SetupError(
            f"{folders.operator_key} is missing",
            hint="Put an operator key of this deployment there, mode 600.",
        )
