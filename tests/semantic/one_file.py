"""One tenant's file with a filler and a sidecar."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from service.index.document import Document, Upsert
from service.index.reader import IndexReader
from service.index.vector_writer import VectorWriter
from service.index.writer import IndexWriter
from service.semantic.filler import Filler
from service.semantic.sidecar import Sidecar
from service.settings import Settings
from tests.semantic.sidecar import FakeSidecar


class OneFile:
    """One tenant's file, its sidecar and a filler, that can be killed and started again."""

    def __init__(self, path: Path, sidecar: FakeSidecar, port: int, **limits: int) -> None:
        self.path = path
        self.sidecar = sidecar
        self.settings = Settings(**limits)
        self.client = Sidecar(f"127.0.0.1:{port}", timeout_ms=5_000)
        self.restart()

    def restart(self) -> None:
        self.index = IndexWriter(self.path, clock=lambda: 5.0)
        self.filler = Filler(self, self.client, self.settings, stop=threading.Event())

    def own_files(self) -> list[str]:
        return ["file"]

    @contextmanager
    def vectors(self, file: str) -> Iterator[VectorWriter]:
        assert file == "file"
        yield self.index.vectors

    def put(self, ref: str, note: str, kind: str = "note", title: str = "") -> None:
        document = Document(kind=kind, ref=ref, title=title, note=note)
        self.index.apply([Upsert(line=1, document=document)])

    def fill(self) -> None:
        while self.filler.advance("file", self.client.info()):
            pass

    def rows(self) -> list[tuple[str, int]]:
        reader = IndexReader(self.path)
        found: Any = reader.connection.execute(
            "SELECT ref, seq FROM doc_vec JOIN doc ON doc.id = doc_id ORDER BY ref, seq"
        ).fetchall()
        reader.close()
        return [(ref, seq) for ref, seq in found]

    def status(self) -> dict[str, object]:
        reader = IndexReader(self.path)
        with reader.snapshot():
            found: dict[str, object] = reader.status()["vectors"]
        reader.close()
        return found
