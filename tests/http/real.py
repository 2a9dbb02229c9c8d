"""A reader over real index files: what the layers read cannot be made up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from starlette.testclient import TestClient

from service.app import create_reader_app
from service.errors import Unavailable
from service.index.document import Document, Upsert
from service.index.reader import IndexReader
from service.index.writer import IndexWriter
from service.search import engine
from service.semantic.lane import Lane
from service.settings import Settings
from service.telemetry.states import read_totals
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView
from tests.http.conftest import FakeOpened

SECRET = b"s" * 32
COMMITTED_S = 1_790_000_000.0


class RealFiles:
    """Files that are here, or cold: then each is asked for and not given."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cold = False
        self.asked_for: list[str] = []

    @contextmanager
    def open(self, file: str, **_: Any) -> Iterator[Any]:
        if self.cold:
            self.asked_for.append(file)
            raise Unavailable("this tenant is not here")
        reader = IndexReader(self.folder / file)
        try:
            with reader.snapshot():
                yield FakeOpened(reader)  # type: ignore[arg-type]
        finally:
            reader.close()

    def health(self) -> dict[str, Any]:
        return {"ready": True, "reasons": []}


class RealWorld:
    """Tenants with documents, and a client."""

    def __init__(self, folder: Path, stack: ExitStack, lane: Lane | None, limits: Any) -> None:
        self.folder = folder
        self.registry = stack.enter_context(Registry(folder / "registry.sqlite", SECRET))
        view = RegistryView(lambda: self.registry.path, SECRET)
        stack.callback(view.close)
        self.files = RealFiles(folder)
        self.search: Callable[..., Any] = engine.search
        self.app = create_reader_app(
            settings=Settings(**limits),
            files=self.files,
            view=view,
            counters=folder / "counters",
            lane=lane,
            search=lambda *asked: self.search(*asked),
        )
        self.client = stack.enter_context(TestClient(self.app))

    def tenant(self, name: str, documents: Sequence[Document]) -> str:
        """Lay a tenant out; a key of it."""
        tenant = self.registry.create_tenant(name)
        writer = IndexWriter(self.folder / tenant.file, clock=lambda: COMMITTED_S)
        writer.apply([Upsert(line=n, document=one) for n, one in enumerate(documents)])
        writer.close()
        return self.registry.create_key(name, ["search"]).key.text

    def post(self, key: str, path: str, *, accept: str = "*/*", **body: Any) -> Any:
        headers = {"authorization": f"Bearer {key}", "accept": accept}
        return self.client.post(path, json=body, headers=headers)

    def counted(self) -> dict[tuple[str, str, str], int]:
        return read_totals(self.folder / "counters")


@contextmanager
def real_world(folder: Path, *, lane: Lane | None = None, **limits: int) -> Iterator[RealWorld]:
    with ExitStack() as stack:
        yield RealWorld(folder, stack, lane, limits)


def notes(count: int, *, words: str = "gateway retry policy", kind: str = "note") -> list[Document]:
    """Documents an hour apart, each with a few hundred words."""
    return [
        Document(
            kind=kind,
            ref=f"{kind}-{number}",
            title=f"The {words} of service {number}",
            note=f"The {words} waits longer after each attempt number {number}. " * 40,
            updated_at=1_780_000_000_000 + number * 3_600_000,
        )
        for number in range(count)
    ]


class Stall:
    """A search that goes on, step by step in SQLite, until it is cut short."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.ended = threading.Event()

    def __call__(self, reader: IndexReader, *_: Any) -> Any:
        self.began.set()
        try:
            reader.connection.execute(
                "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n)"
                " SELECT count(*) FROM n"
            ).fetchall()
        finally:
            self.ended.set()
        raise AssertionError("it never ends by itself")
