"""Copies that stand alone, and earlier states that become the next one."""

from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from service.errors import Unavailable
from service.index import schema
from service.index.copies import copy_snapshot, stamp_next
from service.index.document import Document, Upsert
from service.index.reader import IndexReader
from service.index.writer import IndexWriter


def written(path: Path, *refs: str) -> IndexWriter:
    writer = IndexWriter(path, clock=lambda: 1_000.0)
    for ref in refs:
        document = Document(kind="note", ref=ref, title=f"Gateway {ref}", updated_at=1)
        writer.apply([Upsert(line=1, document=document)])
    return writer


def test_a_copy_holds_its_snapshot_whatever_comes_after(tmp_path: Path) -> None:
    writer = written(tmp_path / "a.db", "n1", "n2")
    reader = IndexReader(tmp_path / "a.db")
    with reader.snapshot():
        writer.apply(
            [Upsert(line=1, document=Document(kind="x", ref="y", title="later", updated_at=1))]
        )
        size = copy_snapshot(reader.connection, tmp_path / "copy.db")
    assert size == (tmp_path / "copy.db").stat().st_size
    (tmp_path / "alone").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "alone/copy.db")
    copy = IndexReader(tmp_path / "alone/copy.db")
    with copy.snapshot():
        assert (copy.version, copy.docs) == (2, 2)
        hits = copy.connection.execute("SELECT count(*) FROM doc_fts WHERE doc_fts MATCH 'gateway'")
        assert hits.get == 2
    assert [path.name for path in (tmp_path / "alone").iterdir()] == ["copy.db"]
    for each in (copy, reader, writer):
        each.close()


def test_a_copy_that_nobody_wants_any_more_is_given_up(tmp_path: Path) -> None:
    writer = written(tmp_path / "a.db", "n1")
    reader = IndexReader(tmp_path / "a.db")
    with reader.snapshot(), pytest.raises(Unavailable, match="too long"):
        copy_snapshot(reader.connection, tmp_path / "copy.db", wanted=lambda: False)
    reader.close()
    writer.close()


@pytest.mark.parametrize("older", [False, True])
def test_an_earlier_state_gets_the_version_it_is_given_and_is_one_file(
    tmp_path: Path, older: bool
) -> None:
    path = tmp_path / "draft.tmp"
    written(path, "n1", "n2").close()
    if older:  # written by an earlier release, whose derived tables are others
        connection = apsw.Connection(str(path))
        with connection:
            connection.execute("UPDATE meta SET value = value - 1 WHERE key = 'layout'")
        connection.close()
    stamp_next(path, 41)
    assert [each.name for each in tmp_path.iterdir()] == ["draft.tmp"]
    reader = IndexReader(path)
    with reader.snapshot():
        assert (reader.version, reader.docs) == (41, 2)
        assert reader.committed_at > 1_000_000
        assert reader.meta["layout"] == schema.LAYOUT_VERSION
    reader.close()
