"""Vectors that travel with their documents."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import orjson
import pytest

from service.errors import InvalidDocument
from service.index import carried
from service.index.carried import Carried
from service.index.document import Document, Upsert, parse_line
from service.index.passages import PASSAGE_POLICY, PASSAGES_MOST, source
from service.index.reader import IndexReader
from service.index.writer import BatchResult, IndexWriter
from service.settings import Settings

MODEL, DIMS = "words@0123456789ab", 3
DOCUMENT = Document(kind="note", ref="a", title="Kettle", note="boils\r\nquickly")


def whole(document: Document, vector: bytes = b"\x01\x02\x7f") -> Carried:
    text = source(document)
    return Carried(MODEL, PASSAGE_POLICY, ((0, 6, vector), (8, len(text), vector)))


class World:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "tenant.db"
        self.writer = IndexWriter(self.path, clock=lambda: 5.0)
        self.writer.vectors.adopt(MODEL, DIMS)

    def put(self, vectors: Carried | None, document: Document = DOCUMENT) -> BatchResult:
        return self.writer.apply([Upsert(line=1, document=document, vectors=vectors)])

    def carried(self) -> Carried | None:
        reader = IndexReader(self.path)
        with reader.snapshot():
            found = reader.carried("note", "a")
        reader.close()
        return found

    def pending(self) -> int:
        return len(self.writer.vectors.pending(10))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_vectors_of_the_same_kind_are_kept_and_nothing_is_left_to_embed(world: World) -> None:
    result = world.put(whole(DOCUMENT))
    assert (result.carried, result.kept) == (1, 1)
    assert world.carried() == whole(DOCUMENT)
    assert world.pending() == 0


def test_they_may_come_after_the_document(world: World) -> None:
    world.put(None)
    assert (world.carried(), world.pending()) == (None, 1)
    result = world.put(whole(DOCUMENT))
    assert (result.results[0].result, result.kept) == ("unchanged", 1)
    assert (world.carried(), world.pending()) == (whole(DOCUMENT), 0)


def test_those_of_a_changed_document_are_replaced(world: World) -> None:
    world.put(whole(DOCUMENT))
    changed = dataclasses.replace(DOCUMENT, note="cools down")
    world.put(whole(changed, b"\x05\x05\x05"), changed)
    assert world.carried() == whole(changed, b"\x05\x05\x05")


@pytest.mark.parametrize(
    "change",
    [
        {"model": "other@0123456789ab"},
        {"policy": PASSAGE_POLICY + 1},
        {"passages": ((0, 10_000, b"\x01\x02\x03"),)},
        {"passages": ((4, 6, b"\x01\x02\x03"), (0, 2, b"\x01\x02\x03"))},
        {"passages": ((0, 6, b"\x01\x02"),)},
    ],
    ids=["model", "policy", "beyond the text", "not rising", "dims"],
)
def test_what_does_not_fit_is_left_to_the_backfill(world: World, change: dict[str, Any]) -> None:
    result = world.put(dataclasses.replace(whole(DOCUMENT), **change))
    assert (result.carried, result.kept) == (1, 0)
    assert (world.carried(), world.pending()) == (None, 1)


def test_an_index_without_a_model_keeps_none(tmp_path: Path) -> None:
    writer = IndexWriter(tmp_path / "tenant.db")
    upsert = Upsert(line=1, document=DOCUMENT, vectors=whole(DOCUMENT))
    assert writer.apply([upsert]).kept == 0


def test_a_line_carries_what_shape_gives() -> None:
    line = {"kind": "note", "ref": "a", "vectors": carried.shape(whole(DOCUMENT))}
    parsed = parse_line(orjson.dumps(line), number=1, now_ms=0, limits=Settings())
    assert isinstance(parsed, Upsert)
    assert parsed.vectors == whole(DOCUMENT)


GOOD: dict[str, Any] = {"model": MODEL, "policy": 1, "passages": [[0, 1, "AQID"]]}


@pytest.mark.parametrize(
    "vectors",
    [
        "AQID",
        {**GOOD, "more": 1},
        {**GOOD, "model": ""},
        {**GOOD, "policy": True},
        {**GOOD, "dropped_chars": -1},
        {**GOOD, "passages": []},
        {**GOOD, "passages": [[0, 1, "AQID"]] * (PASSAGES_MOST + 1)},
        {**GOOD, "passages": [[1, 1, "AQID"]]},
        {**GOOD, "passages": [[0, 1, "no base64"]]},
        {**GOOD, "passages": [[0, 1, "A\u00e9ID"]]},
        {**GOOD, "passages": [[0, 1]]},
        {**GOOD, "passages": [[0, "1", "AQID"]]},
    ],
)
def test_another_shape_is_refused_by_name(vectors: object) -> None:
    line = orjson.dumps({"kind": "note", "ref": "a", "vectors": vectors})
    with pytest.raises(InvalidDocument, match="vectors"):
        parse_line(line, number=1, now_ms=0, limits=Settings())
