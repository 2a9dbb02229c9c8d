"""One tenant on a reader and a writer whose parts below are the smallest that behave."""

from __future__ import annotations

import dataclasses
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import apsw
import httpx
import pytest
from starlette.testclient import TestClient

from service.app import create_reader_app, create_writer_app
from service.errors import Conflict, ReplicaBehind
from service.index import schema
from service.index.document import Delete, Document, Operation
from service.index.writer import BatchResult, LineResult
from service.search.request import Hit, SearchRequest, SearchResult
from service.settings import Settings
from service.telemetry.states import read_totals
from service.tenancy.deletions import Deletions, Status
from service.tenancy.placements import Placements, place
from service.tenancy.records import Rewound, Tenant, TenantState
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView
from service.text import TOKENIZER_VERSION

SECRET = b"s" * 32
AS_OF_MS = 1_790_000_000_123


def empty_file() -> apsw.Connection:
    """What reads a file itself, such as a timeline, finds nothing in it."""
    connection = apsw.Connection(":memory:")
    schema.create(connection, tokenizer_version=TOKENIZER_VERSION)
    return connection


@dataclasses.dataclass
class FakeReader:
    version: int
    found: dict[tuple[str, str], Document]
    connection: apsw.Connection = dataclasses.field(default_factory=empty_file)

    @property
    def docs(self) -> int:
        return len(self.found)

    def get(self, keys: Sequence[tuple[str, str]]) -> list[Document | None]:
        return [self.found.get(key) for key in keys]

    def status(self) -> dict[str, Any]:
        vectors: dict[str, Any] = {
            "model": None,
            "by_kind": {},
            "pending": 0,
            "quarantined": 0,
            "percent": 100,
        }
        return {
            "documents": self.docs,
            "version": self.version,
            "bytes": 4_096,
            "vectors": vectors,
        }


@dataclasses.dataclass
class FakeOpened:
    reader: FakeReader
    age_ms: int = 250
    as_of_ms: int = AS_OF_MS
    temperature: str = "hot"


class FakeVectors:
    """What a tenant's vectors weigh."""

    percent = 100

    def weigh(self, percent: int) -> None:
        self.percent = percent


class FakeFiles:
    """Files in memory; `catch_up` is called by those who wait."""

    def __init__(self) -> None:
        self.files: dict[str, FakeReader] = {}
        self.answers: dict[str, tuple[bytes, BatchResult]] = {}
        self.durabilities: list[str] = []
        self.ready = True
        self.catch_up: Callable[[], None] = lambda: None
        self.registry: Registry | None = None
        self.weights: dict[str, FakeVectors] = defaultdict(FakeVectors)

    @contextmanager
    def open(
        self,
        file: str,
        *,
        min_version: int | None,
        max_staleness_ms: int | None,
        deadline_ms: int,
    ) -> Iterator[Any]:
        reader = self.files[file]
        opened = FakeOpened(reader)
        if deadline_ms:
            self.catch_up()
        old = max_staleness_ms is not None and opened.age_ms > max_staleness_ms
        if old or (min_version is not None and reader.version < min_version):
            raise ReplicaBehind(
                "the replica is behind", version=reader.version, age_ms=opened.age_ms
            )
        yield opened

    def health(self) -> dict[str, Any]:
        return {"ready": self.ready, "reasons": [] if self.ready else ["no store"]}

    def create_tenant(self, name: str) -> Tenant:
        assert self.registry is not None
        tenant = self.registry.create_tenant(name)
        self.files[tenant.file] = FakeReader(0, {})
        return tenant

    def writer_url(self, shard: str) -> str | None:
        return f"http://{shard}.example"

    @contextmanager
    def vectors(self, file: str) -> Iterator[Any]:
        yield self.weights[file]

    def apply(
        self,
        file: str,
        operations: Sequence[Operation],
        *,
        idempotency_key: str | None,
        body_digest: bytes,
        durability: str,
    ) -> BatchResult:
        if idempotency_key in self.answers:
            digest, earlier = self.answers[idempotency_key]
            if digest != body_digest:
                raise Conflict("this Idempotency-Key came with another body before")
            return dataclasses.replace(earlier, replayed=True)
        self.durabilities.append(durability)
        reader = self.files[file]
        results = []
        for operation in operations:
            if isinstance(operation, Delete):
                done = "deleted" if reader.found.pop(operation.key, None) else "absent"
            else:
                done = "updated" if operation.key in reader.found else "created"
                reader.found[operation.key] = operation.document
            results.append(LineResult(operation.line, *operation.key, done))  # type: ignore[arg-type]
        reader.version += 1
        result = BatchResult(reader.version, results)
        if idempotency_key is not None:
            self.answers[idempotency_key] = (body_digest, result)
        return result


class FakeLifecycle:
    """Tenants whose deletion removes nothing and takes no time, unless the store is down."""

    def __init__(self, registry: Registry, files: FakeFiles) -> None:
        self.files = files
        self.placements = Placements(registry)
        self.registry = registry
        self.deletions = Deletions(registry)
        self.store_down = False
        self.restored: list[tuple[str, int, bool]] = []

    def tenants(self) -> list[Status]:
        return [self.tenant(tenant.name) for tenant in self.registry.tenants()]

    def tenant(self, name: str) -> Status:
        trouble = "the store is down" if self.store_down else None
        placed = self.placements.find(name)
        return Status(placed.tenant, self.deletions.find(name), trouble, placed)

    def suspend(self, name: str) -> Status:
        self.registry.set_state(name, TenantState.SUSPENDED)
        return self.tenant(name)

    def resume(self, name: str) -> Status:
        self.registry.set_state(name, TenantState.ACTIVE)
        return self.tenant(name)

    def create(self, name: str, shard: str) -> Status:
        made = self.files.create_tenant(name)
        if shard != "main":
            with self.registry.change() as connection:
                place(connection, made, shard, None, None)
        return self.tenant(name)

    def move(self, name: str, to: str) -> Status:
        known = self.placements.begin(name, to)
        if not self.store_down:
            self.placements.arrive(known)
        return self.tenant(name)

    def delete(self, name: str) -> Status:
        self.deletions.begin(name, {"documents": 2})
        if not self.store_down:
            self.deletions.finish(name, {"tenant": name, "objects_remaining": 0})
        return self.tenant(name)

    def restore(self, name: str, at_ms: int, *, dry_run: bool) -> Rewound:
        self.registry.tenant(name)
        self.restored.append((name, at_ms, dry_run))
        return Rewound(name, dry_run, 7, 8, at_ms, at_ms - 1, 3, 2, not dry_run)


def fake_search(reader: Any, request: SearchRequest) -> SearchResult:
    """Documents whose title holds the query."""
    hits = [
        Hit(
            kind=document.kind,
            ref=document.ref,
            title=document.title,
            score=0.5,
            components={"strict": 0.5},
            snippet=document.title,
            marks=((0, len(request.q)),),
            updated_at=document.updated_at,
            tokens=3,
        )
        for document in reader.found.values()
        if request.q.lower() in document.title.lower()
        and (not request.kinds or document.kind in request.kinds)
    ]
    return SearchResult(
        hits=hits[: request.limit],
        cursor=None,
        read_as={"text": request.q},
        explain={"lanes": {}} if request.explain else None,
        took_ms={"lanes": 1.5},
    )


class World:
    """A registry with one tenant, `acme`, and clients of a reader and a writer."""

    def __init__(self, folder: Path, stack: ExitStack, **limits: int) -> None:
        self.folder = folder
        self.settings = Settings(**limits)
        self.registry = stack.enter_context(Registry(folder / "registry.sqlite", SECRET))
        self.view = RegistryView(lambda: self.registry.path, SECRET)
        stack.callback(self.view.close)
        self.files = FakeFiles()
        self.files.registry = self.registry
        self.tenant = self.files.create_tenant("acme")
        self.keys = {
            "search": self.key("acme", ["search"]),
            "sync": self.key("acme", ["search", "sync"]),
            "admin": self.key("acme", ["admin"]),
            "operator": self.key(None, ["operator"]),
        }
        self.search: Callable[[Any, SearchRequest], SearchResult] = fake_search
        self.lifecycle = FakeLifecycle(self.registry, self.files)
        self.reader_app = create_reader_app(
            settings=self.settings,
            files=self.files,
            view=self.view,
            counters=folder / "counters",
            search=lambda reader, request, _: self.search(reader, request),
        )
        self.writer_app = create_writer_app(
            settings=self.settings,
            tenants=self.files,
            registry=self.registry,
            lifecycle=self.lifecycle,
            view=self.view,
            counters=folder / "counters",
            search=lambda reader, request, _: self.search(reader, request),
        )
        self.reader = stack.enter_context(TestClient(self.reader_app))
        self.writer = stack.enter_context(TestClient(self.writer_app))

    def key(self, tenant: str | None, scopes: list[str]) -> str:
        return self.registry.create_key(tenant, scopes).key.text

    def headers(self, scope: str, **more: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.keys[scope]}", **more}

    def put(self, *documents: Document) -> None:
        reader = self.files.files[self.tenant.file]
        reader.found.update({(document.kind, document.ref): document for document in documents})
        reader.version += 1

    def found(self) -> dict[tuple[str, str], Document]:
        return self.files.files[self.tenant.file].found

    def ask(self, **body: Any) -> Any:
        return self.reader.post("/v1/search", json=body, headers=self.headers("search"))

    def batch(self, body: Any, path: str = "/v1/documents:batch", **headers: str) -> Any:
        return self.writer.post(path, content=body, headers=self.headers("sync", **headers))

    def raw_get(self, path: bytes, query: bytes) -> httpx.Response:
        """A request as a careless peer sends it; a client library would tidy it up."""
        sent: list[Any] = []
        scope = {
            "type": "http",
            "method": "GET",
            "path": path.decode("latin-1"),
            "raw_path": path,
            "query_string": query,
            "headers": [(b"authorization", f"Bearer {self.keys['search']}".encode())],
            "state": dict(self.reader.app_state),
        }

        async def receive() -> Any:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        assert self.reader.portal is not None
        self.reader.portal.call(self.reader_app, scope, receive, send)
        body = b"".join(message.get("body", b"") for message in sent)
        return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=body)

    def counted(self) -> dict[tuple[str, str, str], int]:
        return read_totals(self.folder / "counters")


@pytest.fixture
def make_world(tmp_path: Path) -> Iterator[Callable[..., World]]:
    with ExitStack() as stack:
        yield lambda **limits: World(tmp_path, stack, **limits)


@pytest.fixture
def world(make_world: Callable[..., World]) -> World:
    world = make_world()
    now = int(time.time() * 1_000)
    world.put(
        Document(kind="note", ref="n1", title="Rotate the gateway keys", updated_at=now),
        Document(kind="task", ref="t1", title="Gateway timeout", note="x" * 100, updated_at=now),
    )
    return world
