"""A tiny tenant for search tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from service.index.document import Document, Upsert
from service.index.reader import IndexReader
from service.index.writer import IndexWriter
from service.search.engine import search
from service.search.request import SearchRequest, SearchResult


class World:
    """Documents in, refs out."""

    def __init__(self, folder: Path, documents: Iterable[Mapping[str, Any]] = ()) -> None:
        self.path = folder / "tenant.db"
        self.writer = IndexWriter(self.path, clock=lambda: 2_000_000.0)
        self.add(*documents)

    def add(self, *documents: Mapping[str, Any]) -> None:
        made = [Document(**{"kind": "note", **fields}) for fields in documents]
        self.writer.apply([Upsert(line=n, document=one) for n, one in enumerate(made)])

    def search(self, q: str, **options: Any) -> SearchResult:
        reader = IndexReader(self.path)
        with reader.snapshot():
            result = search(reader, SearchRequest(q=q, **options))
        reader.close()
        return result

    def refs(self, q: str, **options: Any) -> list[str]:
        return [hit.ref for hit in self.search(q, **options).hits]
