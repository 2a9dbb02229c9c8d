"""A service with real index files behind its real HTTP application; machines that sync to it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.testclient import TestClient

from memlane import Client
from service.app import create_writer_app
from service.errors import ReplicaBehind
from service.index.document import Document, Operation
from service.index.reader import IndexReader
from service.index.rows import read_documents
from service.index.writer import BatchResult, IndexWriter
from service.node.tenants import OpenedFile
from service.settings import Settings
from service.sources.source import Source
from service.sources.state import State
from service.sources.sync import Plan, Report, Sync
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView

SECRET = b"s" * 32
DAY_MS = 86_400_000


class IndexFiles:
    """Tenants' files without replication."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, file: str) -> Path:
        path = self._folder / f"{file}.db"
        if not path.exists():
            IndexWriter(path).close()
        return path

    @contextmanager
    def open(
        self,
        file: str,
        *,
        min_version: int | None,
        max_staleness_ms: int | None,
        deadline_ms: int,
    ) -> Iterator[OpenedFile]:
        reader = IndexReader(self.path(file))
        try:
            with reader.snapshot():
                if min_version is not None and reader.version < min_version:
                    raise ReplicaBehind("behind", version=reader.version, age_ms=0)
                yield OpenedFile(reader, 0, round(time.time() * 1_000))
        finally:
            reader.close()

    def apply(
        self,
        file: str,
        operations: Sequence[Operation],
        *,
        idempotency_key: str | None,
        body_digest: bytes,
        durability: str,
    ) -> BatchResult:
        with IndexWriter(self.path(file)) as writer:
            return writer.apply(
                operations, idempotency_key=idempotency_key, body_digest=body_digest
            )

    def health(self) -> dict[str, Any]:
        return {"ready": True, "reasons": []}

    @contextmanager
    def vectors(self, file: str) -> Iterator[Any]:
        raise NotImplementedError

    def writer_url(self, shard: str) -> str | None:
        return None


class InProcess(httpx.BaseTransport):
    """Carries requests to an application that a test client runs."""

    def __init__(self, http: TestClient) -> None:
        self._http = http

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = self._http.request(
            request.method,
            request.url.raw_path.decode(),
            content=request.read(),
            headers=dict(request.headers),
        )
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


class Hosted:
    """One tenant, `acme`, with a key for each scope."""

    def __init__(self, folder: Path, **limits: int) -> None:
        self.stack = ExitStack()
        folder.mkdir(parents=True, exist_ok=True)
        self.settings = Settings(**limits)
        self.files = IndexFiles(folder)
        registry = self.stack.enter_context(Registry(folder / "registry.sqlite", SECRET))
        view = RegistryView(lambda: registry.path, SECRET)
        self.stack.callback(view.close)
        self.tenant = registry.create_tenant("acme")
        self.keys = {
            scope: registry.create_key("acme", [scope]).key.text for scope in ("search", "sync")
        }
        self.app = create_writer_app(
            settings=self.settings,
            tenants=self.files,
            registry=None,
            lifecycle=None,
            view=view,
            counters=folder / "counters",
        )
        self.http = self.stack.enter_context(TestClient(self.app))

    def client(self, scope: str = "sync") -> Client:
        return Client("http://testserver", self.keys[scope], transport=InProcess(self.http))

    def documents(self) -> dict[tuple[str, str], Document]:
        """What the tenant holds."""
        reader = IndexReader(self.files.path(self.tenant.file))
        try:
            return {(d.kind, d.ref): d for _, d in read_documents(reader.connection)}
        finally:
            reader.close()

    def manifest(self) -> list[str]:
        with self.client() as client:
            return client.manifest()["digests"]

    def close(self) -> None:
        self.stack.close()


class Machine:
    """A machine whose syncs go to a service; its state lies in a folder."""

    def __init__(self, hosted: Hosted, folder: Path, **limits: int) -> None:
        self.hosted = hosted
        self.state = folder / "state.sqlite"
        self.settings = Settings(**limits)
        self.bytes_sent = 0
        self.requests = 0

    def plan(self, source: Source) -> Plan:
        with self.hosted.client() as client, State(self.state, "one") as state:
            return Sync(source, client, state, self.settings).plan(client.manifest())

    def sync(self, source: Source, *, yes: bool = True) -> tuple[Plan, Report]:
        with self.hosted.client() as client, State(self.state, "one") as state:
            syncing = Sync(source, client, state, self.settings)
            plan = syncing.plan(client.manifest())
            if not yes:
                syncing.check(plan)
            report = syncing.carry_out(plan)
            self.bytes_sent, self.requests = client.traffic.bytes_sent, client.traffic.requests
            return plan, report
