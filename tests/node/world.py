"""A writer node with real Litestream, its registry and its tenants; readers follow it."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path

from service.index.connection import open_reader
from service.index.document import Document, Operation, Upsert
from service.index.writer import BatchResult
from service.node.lifecycle import Lifecycle
from service.node.tenants import Tenants
from service.replica import (
    FolderStore,
    LitestreamSupervisor,
    ObjectStore,
    Publisher,
    current_path,
    local_files,
    new_file,
    prepare,
)
from service.settings import Settings
from service.tenancy.records import Tenant
from service.tenancy.registry import Registry, now_ms
from service.tenancy.view import RegistryView

SECRET = b"s" * 32


def upsert(ref: str, title: str) -> Operation:
    document = Document(kind="note", ref=ref, title=title, updated_at=1)
    return Upsert(line=1, document=document)


def later() -> int:
    """A moment, ms since 1970, that is over when this returns."""
    moment = now_ms()
    while now_ms() <= moment:
        time.sleep(0.001)
    return moment


class WriterNode:
    """One writer; `start` after `stop` is its restart."""

    def __init__(self, root: Path, store: ObjectStore | None = None, **limits: int) -> None:
        self.data = root / "data"
        self.store: ObjectStore = store or FolderStore(root / "store")
        self.registry_file = new_file()
        settings = {"erase_settle_ms": 20, "heads_interval_ms": 40, "heads_heartbeat_ms": 200}
        self.settings = Settings(**(settings | limits))
        self._stack = ExitStack()
        self.start()

    def start(self) -> None:
        data, settings = self.data, self.settings
        prepare(data, self.store, shard="0")
        current_path(data, self.registry_file).parent.mkdir(parents=True, exist_ok=True)
        self.litestream = LitestreamSupervisor(
            data, self.store, sync_interval_ms=100, backoff_ms=1_000
        )
        self.litestream.start()
        self._stack.callback(self.litestream.drain, 10_000)
        self.litestream.wait_initialised(
            [current_path(data, file) for file in local_files(data)], 10_000
        )
        self.publisher = Publisher(
            data,
            self.store,
            shard="0",
            registry=self.registry_file,
            heads_interval_ms=settings.heads_interval_ms,
            heads_heartbeat_ms=settings.heads_heartbeat_ms,
        )
        self.registry = self._stack.enter_context(
            Registry(
                current_path(data, self.registry_file),
                SECRET,
                changed=lambda: self.publisher.changed(self.registry_file),
            )
        )
        self.tenants = self._stack.enter_context(
            Tenants(data, registry=self.registry, publisher=self.publisher, settings=settings)
        )
        self.publisher.start()
        self.publisher.changed(self.registry_file)
        self._stack.callback(self.publisher.stop, 5_000)
        self.lifecycle = self._stack.enter_context(
            Lifecycle(
                data,
                self.store,
                tenants=self.tenants,
                registry=self.registry,
                registry_file=self.registry_file,
                publisher=self.publisher,
                settings=settings,
            )
        )

    def stop(self) -> None:
        self._stack.close()

    def create(self, name: str) -> Tenant:
        """A new tenant whose empty file is in the store."""
        tenant = self.tenants.create_tenant(name)
        self.publisher.replicate_now(tenant.file, 0, 10_000)
        return tenant

    def write(self, tenant: Tenant, *titles: str, durable: bool = True) -> BatchResult:
        """One batch: a document a title, its ref the title's first word."""
        return self.tenants.apply(
            tenant.file,
            [upsert(title.split()[0], title) for title in titles],
            idempotency_key=None,
            body_digest=b"",
            durability="replicated" if durable else "local",
        )

    def titles(self, tenant: Tenant) -> list[str]:
        return titles(current_path(self.data, tenant.file))

    def objects(self, tenant: Tenant) -> list[str]:
        return [item.key for item in self.store.list(f"v1/{tenant.file}/")]

    def view(self) -> RegistryView:
        return RegistryView(lambda: self.registry.path, SECRET)


def titles(path: Path) -> list[str]:
    """The titles of a file's documents, in order."""
    connection = open_reader(path)
    found = [str(title) for (title,) in connection.execute("SELECT title FROM doc ORDER BY title")]
    connection.close()
    return found
