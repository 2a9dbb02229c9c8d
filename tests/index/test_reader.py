from __future__ import annotations

from pathlib import Path

import pytest

from service.errors import IndexCorrupt, IndexTooOld
from service.index.connection import open_writer
from service.index.document import Document, Upsert
from service.index.reader import IndexReader
from service.index.writer import IndexWriter


def document(ref: str, kind: str = "note") -> Document:
    return Document(kind=kind, ref=ref, title=f"Title {ref}", note="text", identifiers=("OPS-1",))


def test_a_snapshot_holds_still_while_the_writer_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with IndexWriter(path) as index:
        index.apply([Upsert(line=1, document=document("a"))])
        reader = IndexReader(path)
        with reader.snapshot():
            index.apply([Upsert(line=1, document=document("b"))])
            assert (reader.version, reader.docs) == (1, 1)
            assert reader.get([("note", "b")]) == [None]
        with reader.snapshot():
            assert (reader.version, reader.docs) == (2, 2)
            assert reader.get([("note", "b"), ("note", "a")]) == [document("b"), document("a")]


def test_status_counts_by_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with IndexWriter(path, clock=lambda: 5.0) as index:
        kinds = ("task", "note", "task")
        index.apply(
            [Upsert(line=n, document=document(str(n), kind)) for n, kind in enumerate(kinds)]
        )
    open_writer(path).wal_checkpoint(mode=3)
    reader = IndexReader(path)
    with reader.snapshot():
        status = reader.status()
    assert status["documents_by_kind"] == {"note": 1, "task": 2}
    assert (status["documents"], status["version"], status["committed_at"]) == (3, 1, 5000)
    assert status["bytes"] == path.stat().st_size


def test_a_damaged_page_becomes_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    with IndexWriter(path) as index:
        index.apply([Upsert(line=n, document=document(str(n))) for n in range(500)])
    checkpointed = open_writer(path)
    checkpointed.wal_checkpoint(mode=3)
    checkpointed.close()
    raw = bytearray(path.read_bytes())
    for page in range(1, len(raw) // 4096):
        raw[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(raw)
    with pytest.raises(IndexCorrupt):
        IndexReader(path)


def test_a_file_with_a_trigger_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    IndexWriter(path).close()
    open_writer(path).execute("CREATE TRIGGER evil AFTER INSERT ON doc BEGIN DELETE FROM doc; END")
    with pytest.raises(IndexCorrupt, match="trigger"):
        IndexReader(path)


def test_a_file_of_an_older_layout_waits_for_its_writer(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    IndexWriter(path).close()
    open_writer(path).execute(
        "UPDATE meta SET value = 1 WHERE key = 'layout'; DROP TABLE word"
    ).fetchall()
    with pytest.raises(IndexTooOld, match="layout is 1"):
        IndexReader(path)
    IndexWriter(path).close()  # rebuilds it
    IndexReader(path).close()


def test_a_file_without_our_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    open_writer(path).close()
    with pytest.raises(IndexCorrupt, match="no `meta` table"):
        IndexReader(path)
