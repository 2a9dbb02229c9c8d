"""The writer role: Litestream and one web process that takes batches.

The supervising process (this class) holds the data folder's lock, restores what is missing, runs
Litestream, and only then lets the web process accept writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from service.app import create_writer_app
from service.errors import SetupError
from service.node.tenants import Tenants
from service.replica import (
    FIRST_EPOCH,
    Child,
    FolderLock,
    FolderStore,
    LitestreamSupervisor,
    Publisher,
    current_path,
    latest_epoch,
    local_files,
    lock_writer,
    new_file,
    prepare,
    writer_path,
)
from service.replica.heads import decode
from service.replica.names import heads_key
from service.replica.store import Stored
from service.roles.folders import Folders, write_private
from service.roles.web import wait_answering, web_child
from service.serve import ServeOptions
from service.settings import Settings
from service.tenancy.registry import Registry
from service.tenancy.secret import load_or_create_secret, load_secret
from service.tenancy.view import RegistryView

#: One shard for now; a fleet names its own.
SHARD = "main"
START_MS = 120_000


class WriterRole:
    """A writer on this machine. `start`, `poll` and `stop` belong to one thread."""

    def __init__(
        self, folders: Folders, *, store: Path, host: str, port: int, settings: Settings
    ) -> None:
        self.url = f"http://{host}:{port}"
        self._folders = folders
        self._store = FolderStore(store)
        self._settings = settings
        self._host, self._port = host, port
        self._lock: FolderLock | None = None
        self._litestream: LitestreamSupervisor | None = None
        self._web: Child | None = None

    def start(self) -> None:
        """Bring the role up, until it answers.

        Raises:
            SetupError: the port or the folder is taken, Litestream is missing, a file cannot be
                written.
            ReplicationError: the object store lacks what it announced.
            Unavailable: something did not come up in time.
        """
        data, settings = self._folders.data, self._settings
        log = self._folders.writer / "web.log"
        options = ServeOptions(
            factory="service.roles.writer:create_app",
            config={"data": str(data), "store": str(self._store.root)},
            host=self._host,
            port=self._port,
            # Exactly one process commits: it alone knows what changed (see replica/publish.py).
            workers=1,
            drain_ms=settings.drain_ms,
        )
        web = web_child("writer", options, log=log, settings=settings)
        self._lock = lock_writer(data)
        secret = load_or_create_secret(self._folders.secret)
        prepare(data, self._store, shard=SHARD)
        registry_file = self._registry_file()
        _first_key(self._folders, registry_file, secret)
        self._litestream = LitestreamSupervisor(
            data,
            self._store,
            sync_interval_ms=settings.sync_interval_ms,
            backoff_ms=settings.child_backoff_ms,
        )
        self._litestream.start()
        watched = [current_path(data, file) for file in local_files(data)]
        self._litestream.wait_initialised(watched, START_MS)
        self._web = web
        web.start()
        wait_answering(self.url, "/readyz", timeout_ms=START_MS, poll=self.poll, log=log)

    def poll(self) -> None:
        """Look after the children; call about every 100 ms."""
        if self._litestream is not None:
            self._litestream.poll()
        if self._web is not None:
            self._web.poll()

    def stop(self) -> None:
        """Finish batches under way, let Litestream upload what is left, release the folder."""
        if self._web is not None:
            self._web.stop(self._settings.drain_ms)
        if self._litestream is not None:
            self._litestream.drain(self._settings.drain_ms)
        if self._lock is not None:
            self._lock.close()

    def _registry_file(self) -> str:
        """The registry's name: the announced one, the one noted here, or a new one."""
        data = self._folders.data
        note = self._folders.writer / "registry"
        announced = self._store.get(heads_key(SHARD))
        file = decode(announced.body).registry if isinstance(announced, Stored) else None
        if file is None and note.exists():
            file = note.read_text().strip()
        if file is None:
            file = new_file()
        if latest_epoch(data, file) is None:
            writer_path(data, file, FIRST_EPOCH).parent.mkdir(parents=True, exist_ok=True)
        write_private(note, file.encode() + b"\n")
        return file


def create_app(config: Mapping[str, Any]) -> ASGIApp:
    """The web process's application; gunicorn calls this after the fork."""
    settings = Settings.from_environment()
    folders = Folders(Path(config["data"]))
    registry_file = (folders.writer / "registry").read_text().strip()
    publisher = Publisher(
        folders.data,
        FolderStore(Path(config["store"])),
        shard=SHARD,
        registry=registry_file,
        heads_interval_ms=settings.heads_interval_ms,
        heads_heartbeat_ms=settings.heads_heartbeat_ms,
    )
    secret = load_secret(folders.secret)
    path = current_path(folders.data, registry_file)
    registry = Registry(path, secret, changed=lambda: publisher.changed(registry_file))
    tenants = Tenants(folders.data, registry=registry, publisher=publisher, settings=settings)
    resources: list[AbstractContextManager[object]] = [registry, tenants]
    resources.append(_running(publisher, tenants, settings.drain_ms))
    return create_writer_app(
        settings=settings,
        tenants=tenants,
        registry=registry,
        view=RegistryView(lambda: path, secret),
        counters=folders.writer / "counters",
        resources=resources,
    )


@contextmanager
def _running(publisher: Publisher, tenants: Tenants, drain_ms: int) -> Iterator[None]:
    publisher.start()
    tenants.lay_out_missing()
    try:
        yield
    finally:
        publisher.stop(drain_ms)


def _first_key(folders: Folders, registry_file: str, secret: bytes) -> None:
    """Make the deployment's first operator key, before anything else has the registry open."""
    path = current_path(folders.data, registry_file)
    with Registry(path, secret) as registry:
        if any("operator" in key.scopes and not key.revoked_at for key in registry.keys(None)):
            if not folders.operator_key.exists():
                raise SetupError(
                    f"{folders.operator_key} is missing",
                    hint="Put an operator key of this deployment there, mode 600.",
                )
            return
        made = registry.create_key(None, ["operator"], label="first")
        write_private(folders.operator_key, made.key.text.encode() + b"\n")
