"""The manifest tells what is there; conditional writes lead to one end in any order."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memlane import digests as client_side
from service.errors import InvalidDocument, TooLarge
from service.index import manifest
from service.index.connection import open_writer
from service.index.document import Delete, Document, Operation, Upsert, parse_line
from service.index.reader import IndexReader
from service.index.rows import read_documents
from service.index.writer import IndexWriter
from service.settings import Settings


def put(ref: str, title: str = "t", at: int = 1, *, if_newer: bool = True) -> Upsert:
    document = Document(kind="note", ref=ref, title=title, updated_at=at)
    return Upsert(line=1, document=document, if_newer=if_newer)


def drop(ref: str, at: int, *, if_newer: bool = True) -> Delete:
    return Delete(line=1, kind="note", ref=ref, updated_at=at, if_newer=if_newer)


def apply(path: Path, operations: Sequence[Operation]) -> list[str]:
    with IndexWriter(path) as writer:
        return [writer.apply([operation]).results[0].result for operation in operations]


def told(path: Path) -> list[int]:
    reader = IndexReader(path)
    with reader.snapshot():
        return list(manifest.digests(reader))


def test_the_digests_tell_what_is_there_and_not_how_it_came(tmp_path: Path) -> None:
    one, other = tmp_path / "one.db", tmp_path / "other.db"
    apply(one, [put("a"), put("b", "x"), put("c")])
    apply(other, [put("c", "old", 0), put("d"), put("c"), put("b", "x"), drop("d", 1), put("a")])
    assert told(one) == told(other)
    apply(other, [put("a", at=2)])
    changed = [n for n in range(256) if told(one)[n] != told(other)[n]]
    assert changed == [manifest.key_of("note", "a")[0]]


def test_the_rows_of_the_buckets_are_the_documents(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    apply(path, [put(f"n{number}", at=number) for number in range(40)])
    reader = IndexReader(path)
    with reader.snapshot():
        found = [
            row for bucket in "0123456789abcdef" for row in manifest.rows(reader, bucket, most=40)
        ]
        by_two = [row for n in range(256) for row in manifest.rows(reader, f"{n:02x}", most=40)]
        assert found == by_two == sorted(found)
        expected = [0] * 256
        for row in found:
            expected[row.key[0]] ^= row.entry
        assert manifest.digests(reader) == expected
        documents = [document for _, document in read_documents(reader.connection)]
        assert {(row.key, row.updated_at, row.content_hash) for row in found} == {
            (manifest.key_of(d.kind, d.ref), d.updated_at, d.content_hash()) for d in documents
        }
        bucket = found[0].key.hex()[0]
        count = sum(row.key.hex().startswith(bucket) for row in found)
        with pytest.raises(TooLarge, match=f"more than {count - 1}"):
            manifest.rows(reader, bucket, most=count - 1)


def test_the_digests_follow_a_version_that_comes_in(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    apply(path, [put("a")])
    reader = IndexReader(path)
    with reader.snapshot():
        before = manifest.digests(reader)
    apply(path, [put("b")])
    with reader.snapshot():
        assert manifest.digests(reader) != before


@given(
    texts=st.lists(st.text(max_size=20), min_size=4, max_size=4),
    identifiers=st.lists(st.text(min_size=1, max_size=8), max_size=4),
    kind=st.text(max_size=8),
    ref=st.text(max_size=8),
)
def test_client_and_service_mean_the_same(
    texts: list[str], identifiers: list[str], kind: str, ref: str
) -> None:
    title, summary, note, meta = texts
    document = Document(
        kind=kind,
        ref=ref,
        title=title,
        summary=summary,
        note=note,
        meta=meta,
        identifiers=tuple(sorted(set(identifiers))),
    )
    assert document.content_hash() == client_side.content_hash(
        title=title, summary=summary, note=note, meta=meta, identifiers=identifiers
    )
    assert manifest.key_of(kind, ref) == client_side.key_of(kind, ref)


operations = st.one_of(
    st.builds(put, st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(1, 4)),
    st.builds(drop, st.sampled_from("ab"), st.integers(1, 4)),
)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), chosen=st.lists(operations, max_size=7))
def test_conditional_writes_come_to_one_end_in_any_order_and_repeated(
    data: st.DataObject, chosen: list[Operation]
) -> None:
    shuffled = data.draw(st.permutations([*chosen, *chosen[:3]]))
    with tempfile.TemporaryDirectory() as folder:
        one, other = Path(folder, "one.db"), Path(folder, "other.db")
        apply(one, chosen)
        apply(other, shuffled)
        assert told(one) == told(other)


def test_each_conditional_write_says_what_became_of_it(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    low, high = sorted(
        ("x", "y"), key=lambda title: Document(kind="note", ref="a", title=title).content_hash()
    )
    done = apply(
        path,
        [
            put("a", low, 5),
            put("a", "older", 4),
            put("a", low, 4),
            put("a", low, 5),
            put("a", high, 5),
            put("a", low, 5),
            put("a", high, 6),
            drop("a", 5),
            drop("a", 6),
            put("a", "late", 6),
            drop("a", 7),
            put("a", "late", 7),
            put("a", "new", 8),
        ],
    )
    assert done == [
        *("created", "older", "older", "unchanged", "updated", "older", "touched"),
        *("older", "deleted", "older", "absent", "older", "created"),
    ]


def test_a_plain_write_asks_nobody_and_a_plain_deletion_is_remembered(tmp_path: Path) -> None:
    path = tmp_path / "one.db"
    done = apply(
        path,
        [
            put("a", "new", 5),
            put("a", "old", 2, if_newer=False),
            drop("a", 0, if_newer=False),
            put("a", "old", 2),
            put("a", "old", 1, if_newer=False),
        ],
    )
    assert done == ["created", "updated", "deleted", "older", "created"]


def test_a_deletion_that_is_news_grows_the_version_once(tmp_path: Path) -> None:
    with IndexWriter(tmp_path / "one.db") as writer:
        assert writer.apply([drop("a", 3)]).version == 1
        assert writer.apply([drop("a", 3)]).version == 1
        assert writer.apply([drop("a", 2)]).version == 1
        assert writer.apply([drop("a", 0, if_newer=False)]).version == 1


@pytest.mark.parametrize("schema", [1, 2])
def test_a_file_of_an_earlier_release_learns_when_things_were_deleted(
    tmp_path: Path, schema: int
) -> None:
    path = tmp_path / "one.db"
    apply(path, [put("a"), put("b"), drop("b", 1)])
    connection = open_writer(path)
    connection.execute("ALTER TABLE tombstone DROP COLUMN updated_at")
    connection.execute("UPDATE meta SET value = ? WHERE key = 'schema'", (schema,))
    connection.close()
    assert apply(path, [put("b"), drop("a", 1), put("a")]) == ["created", "deleted", "older"]


def test_a_condition_is_read_with_its_time_or_not_at_all() -> None:
    def read(line: bytes) -> Operation:
        return parse_line(line, number=1, now_ms=10, limits=Settings())

    assert read(b'{"kind":"note","ref":"a","if_newer":true,"updated_at":3}') == Upsert(
        line=1, document=Document(kind="note", ref="a", updated_at=3), if_newer=True
    )
    deletion = read(b'{"op":"delete","kind":"note","ref":"a","if_newer":true,"updated_at":3}')
    assert deletion == Delete(line=1, kind="note", ref="a", updated_at=3, if_newer=True)
    for line in (
        b'{"kind":"note","ref":"a","if_newer":true}',
        b'{"kind":"n","ref":"a","if_newer":1}',
    ):
        with pytest.raises(InvalidDocument, match="if_newer"):
            read(line)
