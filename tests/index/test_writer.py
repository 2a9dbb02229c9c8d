from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service import text
from service.errors import Conflict, IndexCorrupt, IndexTooNew, TooLarge
from service.index import derived, schema
from service.index.connection import open_writer
from service.index.document import Delete, Document, Upsert
from service.index.reader import IndexReader
from service.index.writer import IndexWriter


def put(ref: str, title: str = "t", line: int = 1, updated_at: int = 1) -> Upsert:
    document = Document(kind="note", ref=ref, title=title, updated_at=updated_at)
    return Upsert(line=line, document=document)


def drop(ref: str, line: int = 1) -> Delete:
    return Delete(line=line, kind="note", ref=ref)


def matches(path: Path, term: str) -> list[str]:
    connection = IndexReader(path).connection
    rows = connection.execute(
        "SELECT ref FROM doc_fts JOIN doc ON doc.id = doc_fts.rowid WHERE doc_fts MATCH ?"
        " ORDER BY ref",
        (f'"{term}"',),
    )
    return [ref for (ref,) in rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tenant.db"


def test_a_batch_says_what_became_of_each_line(path: Path) -> None:
    with IndexWriter(path) as index:
        first = index.apply([put("a"), put("b", line=2), put("d", line=3)])
        second = index.apply(
            [put("a"), put("b", "new", 2), put("c", line=3), drop("z", 4), put("d", "t", 5, 2)]
        )
        third = index.apply([drop("a")])
    assert [line.result for line in first.results] == ["created"] * 3
    assert [line.result for line in second.results] == [
        "unchanged",
        "updated",
        "created",
        "absent",
        "touched",
    ]
    assert [line.result for line in third.results] == ["deleted"]
    assert (first.version, second.version, third.version) == (1, 2, 3)


def test_the_last_of_several_operations_on_a_document_counts(path: Path) -> None:
    with IndexWriter(path) as index:
        result = index.apply([put("a", "one", 1), drop("a", 2), put("a", "three", 3)])
    assert [line.result for line in result.results] == ["superseded", "superseded", "created"]
    assert matches(path, "three") == ["a"]
    assert matches(path, "one") == []


def test_a_batch_that_changes_nothing_keeps_the_version(path: Path) -> None:
    with IndexWriter(path) as index:
        index.apply([put("a")])
        assert index.apply([put("a"), drop("b", 2)]).version == 1
        assert index.version == 1


def test_updates_and_deletes_leave_nothing_behind(path: Path) -> None:
    with IndexWriter(path) as index:
        index.apply([put("a", "otter")])
        index.apply([put("a", "heron")])
        index.apply([drop("a")])
        index.apply([put("b", "tulip")])
    assert (matches(path, "otter"), matches(path, "heron")) == ([], [])
    assert matches(path, "tulip") == ["b"]
    connection = IndexReader(path).connection
    for table in ("doc_sheet", "ident"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)
    assert connection.execute("SELECT kind, ref, version FROM tombstone").fetchall() == [
        ("note", "a", 3)
    ]


def test_identifiers_follow_an_update(path: Path) -> None:
    def put_with(title: str, *identifiers: str) -> Upsert:
        document = Document(kind="note", ref="a", title=title, identifiers=identifiers)
        return Upsert(line=1, document=document)

    with IndexWriter(path) as index:
        index.apply([put_with("POL-358 and CR-291", "gone-1", "stays")])
        index.apply([put_with("POL-358 and CR-292", "cr-292", "stays")])
    rows = IndexReader(path).connection.execute("SELECT token, source FROM ident ORDER BY token")
    assert rows.fetchall() == [
        ("a", derived.OWN_REF),
        ("cr-292", derived.DECLARED),
        ("pol-358", derived.MENTIONED),
        ("stays", derived.DECLARED),
    ]


def test_a_document_keeps_its_row_when_it_is_updated(path: Path) -> None:
    with IndexWriter(path) as index:
        index.apply([put("a"), put("b", line=2)])
        index.apply([put("a", "new")])
    rows = IndexReader(path).connection.execute("SELECT id FROM doc WHERE ref = 'a'").fetchall()
    assert rows == [(1,)]


def test_counts_follow_the_documents(path: Path) -> None:
    with IndexWriter(path) as index:
        index.apply([put("a", "one two"), put("b", "three", 2)])
        index.apply([drop("b"), put("a", "one two three four", 2)])
    meta = schema.read_meta(IndexReader(path).connection)
    assert (meta["docs"], meta["title_terms"], meta["version"]) == (1, 4, 2)


def test_an_idempotency_key_gives_the_first_answer_again(path: Path) -> None:
    with IndexWriter(path, idempotency_keys_most=2) as index:
        first = index.apply([put("a")], idempotency_key="k1", body_digest=b"1")
        index.apply([drop("a")])
        again = index.apply([put("a")], idempotency_key="k1", body_digest=b"1")
        assert (again.version, again.results, again.replayed) == (1, first.results, True)
        assert matches(path, "t") == []
        with pytest.raises(Conflict):
            index.apply([put("b")], idempotency_key="k1", body_digest=b"2")
        index.apply([put("b")], idempotency_key="k2", body_digest=b"2")
        index.apply([put("c")], idempotency_key="k3", body_digest=b"3")
        assert not index.apply([put("d")], idempotency_key="k1", body_digest=b"9").replayed


def test_a_tenant_holds_no_more_documents_than_it_may(path: Path) -> None:
    with IndexWriter(path, documents_most=2) as index:
        index.apply([put("a"), put("b", line=2)])
        with pytest.raises(TooLarge) as caught:
            index.apply([put("c")])
        assert caught.value.limit == "tenant_documents"
        assert index.version == 1
        assert index.apply([put("a", "changed")]).version == 2
        assert index.apply([drop("a"), put("c", line=2)]).version == 3


def test_a_newer_file_is_refused_and_left_alone(path: Path) -> None:
    with IndexWriter(path) as index:
        index.apply([put("a")])
    connection = open_writer(path)
    connection.execute("UPDATE meta SET value = 99 WHERE key = 'schema'")
    for opened in (IndexWriter, IndexReader):
        with pytest.raises(IndexTooNew, match="schema is 99"):
            opened(path)
    assert connection.execute("SELECT count(*) FROM doc").fetchone() == (1,)


@pytest.mark.parametrize("stamp", ["tokenizer", "layout", "schema"])
def test_an_older_file_is_rebuilt_from_its_documents(path: Path, stamp: str) -> None:
    with IndexWriter(path) as index:
        index.apply([put("a", "otter"), put("b", "heron", 2)])
    connection = open_writer(path)
    connection.execute("UPDATE meta SET value = 0 WHERE key = ?", (stamp,))
    connection.execute("DELETE FROM doc_fts")
    connection.close()
    with IndexWriter(path) as index:
        assert index.version == 2
    assert matches(path, "otter") == ["a"]


def test_a_rebuild_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The mistake of others: the version stamped first, then an empty index that never heals."""
    with IndexWriter(path) as index:
        index.apply([put("a", "otter"), put("b", "heron", 2)])
    connection = open_writer(path)
    connection.execute("UPDATE meta SET value = 0 WHERE key = 'tokenizer'")
    connection.close()

    real: Callable[[str], tuple[str, str]] = text.index_columns
    calls = []

    def failing(text: str) -> tuple[str, str]:
        calls.append(text)
        if len(calls) > 5:
            raise OSError("disk full")
        return real(text)

    monkeypatch.setattr(derived, "index_columns", failing)
    with pytest.raises(OSError, match="disk full"):
        IndexWriter(path)
    monkeypatch.undo()
    assert matches(path, "otter") == ["a"]
    with IndexWriter(path) as index:
        assert index.version == 2


def test_a_foreign_file_is_refused(path: Path) -> None:
    other = apsw.Connection(str(path))
    other.execute("CREATE TABLE doc(x)")
    other.close()
    with pytest.raises(IndexCorrupt, match="another application"):
        IndexWriter(path)
    path.write_bytes(b"not a database, but long enough to look like a header" * 20)
    with pytest.raises(IndexCorrupt, match="not a SQLite file"):
        IndexWriter(path)


def _push_until_killed(path: Path, started: str) -> None:
    with IndexWriter(path) as index:
        for batch in range(10_000):
            index.apply([put(f"{batch}-{n}", f"word{batch}", n) for n in range(20)])
            if batch == 3:
                Path(started).touch()


def test_kill_9_leaves_whole_batches(path: Path, tmp_path: Path) -> None:
    started = tmp_path / "started"
    process = multiprocessing.get_context("spawn").Process(
        target=_push_until_killed, args=(path, str(started))
    )
    process.start()
    while not started.exists():
        process.join(0.01)
        assert process.is_alive()
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with IndexWriter(path) as index:
        version = index.version
    connection = IndexReader(path).connection
    assert connection.execute("SELECT count(*) FROM doc").fetchone() == (version * 20,)
    assert connection.pragma("integrity_check") == "ok"
    checker = open_writer(path)
    checker.execute("INSERT INTO doc_fts(doc_fts) VALUES ('integrity-check')")


@settings(max_examples=40, deadline=None)
@given(
    batches=st.lists(
        st.lists(
            st.tuples(
                st.sampled_from("abc"), st.sampled_from(["one", "two words", "三个 word", None])
            ),
            max_size=4,
        ),
        max_size=6,
    )
)
def test_any_history_leaves_what_its_end_state_alone_would(
    tmp_path_factory: pytest.TempPathFactory, batches: list[list[tuple[str, str | None]]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    state: dict[str, str] = {}
    with IndexWriter(folder / "long.db") as index:
        for batch in batches:
            operations: list[Upsert | Delete] = []
            for line, (ref, title) in enumerate(batch):
                if title is None:
                    state.pop(ref, None)
                    operations.append(drop(ref, line))
                else:
                    state[ref] = title
                    operations.append(put(ref, title, line))
            index.apply(operations)
    with IndexWriter(folder / "short.db") as index:
        index.apply([put(ref, title, n) for n, (ref, title) in enumerate(state.items())])
    for word in ("one", "two", "words", "三个", "word"):
        assert matches(folder / "long.db", word) == matches(folder / "short.db", word)
    counts = [
        {k: v for k, v in schema.read_meta(IndexReader(folder / name).connection).items()
         if k in ("docs", "title_terms", "body_terms")}
        for name in ("long.db", "short.db")
    ]  # fmt: skip
    assert counts[0] == counts[1]


def segments(path: Path) -> int:
    rows = open_writer(path).execute("SELECT count(DISTINCT segid) FROM doc_fts_idx")
    return int(rows.get)


def test_a_large_batch_leaves_one_segment_and_small_ones_are_left_alone(path: Path) -> None:
    with IndexWriter(path) as index:
        for n in range(3):
            index.apply([put(f"early-{n}", "otter")])
        assert segments(path) == 3
        index.apply([put(f"many-{n}", f"heron {n}") for n in range(600)])
        assert segments(path) == 1
        index.apply([put("late", "otter")])
        assert segments(path) == 2
        # a second large batch that is small against the rest waits for more
        index.apply([put(f"x-{n}", f"egret {n}") for n in range(3_000)])
        index.apply([put(f"y-{n}", f"egret {n}") for n in range(600)])
        assert segments(path) == 2
    assert len(matches(path, "egret")) == 3_600


def test_many_documents_get_the_sheets_and_links_that_each_gets_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is held back is written in portions, in order, and none is given another's."""
    monkeypatch.setattr(derived, "HELD_CHARS", 40)
    monkeypatch.setattr(derived, "LINKS_MOST", 3)
    many = [
        put(f"n-{n}", f"heron OPS-{2000 + n}" + " egret" * (n % 7), updated_at=n) for n in range(30)
    ]

    def stored(name: str, *batches: list[Upsert]) -> list[list[Any]]:
        with IndexWriter(tmp_path / name) as index:
            for batch in batches:
                index.apply(batch)
        connection = IndexReader(tmp_path / name).connection
        queries = ("SELECT * FROM doc_sheet", "SELECT * FROM ident", "SELECT * FROM word")
        counts = "SELECT key, value FROM meta WHERE key LIKE '%_terms' ORDER BY key"
        return [connection.execute(query).fetchall() for query in (*queries, counts)]

    together = stored("together", many)
    assert together == stored("alone", *([one] for one in many))
    assert [len(rows) for rows in together] == [30, 60, 3, 2]
    changed = [put(f"n-{n}", f"tulip {n}", updated_at=99) for n in range(30)]
    assert stored("changed", many, changed) == stored("anew", many, *([one] for one in changed))


def words(path: Path) -> list[str]:
    return [term for (term,) in open_writer(path).execute("SELECT term FROM word ORDER BY term")]


def test_the_dictionary_holds_plain_words_alone(path: Path) -> None:
    with IndexWriter(path) as index:
        index.apply([put("a", "Otter v2 重试 gateways-dev x 2041"), put("b", "otter Café", 2)])
        assert words(path) == ["cafe", "dev", "gateways", "otter"]


def test_no_word_is_lost_when_there_are_many(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than the writer remembers at first, and more than wait to be written at once."""
    many = ["".join(letters) for letters in itertools.product("abcdefghijk", repeat=4)]
    monkeypatch.setattr("service.index.words.WAITING_MOST", 5_000)
    with IndexWriter(path) as index:
        index.apply([put(f"{at}", " ".join(many[at : at + 50])) for at in range(0, len(many), 50)])
        assert words(path) == many
        index.apply([put("last", "zebra")])
        assert words(path) == [*many, "zebra"]


def test_a_batch_that_fails_unlearns_its_words(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with IndexWriter(path, documents_most=1) as index:
        with pytest.raises(TooLarge):
            index.apply([put("a", "otter"), put("b", "heron")])
        assert words(path) == []
        index.apply([put("a", "otter")])
        assert "otter" in words(path)
