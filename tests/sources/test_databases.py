"""Open Walnut's and AgentKits' files, built by the tables that their programs write."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from service.settings import Settings
from service.sources.agentkits import AgentKits
from service.sources.known import guess
from service.sources.open_walnut import OpenWalnut
from service.sources.source import Document, Skipped, Source, Unit

MS = 1_767_225_600_000

WALNUT = """
CREATE TABLE doc(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, ref TEXT NOT NULL, title TEXT,
  summary TEXT, note TEXT, meta TEXT, updated_at INTEGER, hash TEXT, UNIQUE(kind, ref));
CREATE TABLE ident(token TEXT, doc_id INTEGER, field TEXT);
CREATE TABLE doc_vec(doc_id INTEGER, seq INTEGER, vec BLOB, PRIMARY KEY(doc_id, seq));
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE replica_tag(doc_id INTEGER, tag TEXT);
INSERT INTO meta VALUES ('schema_version', '7'), ('embed_model', 'e5'), ('fts_version', '3');
"""
AGENTKITS = """
CREATE TABLE memory_entries(id TEXT PRIMARY KEY, key TEXT, content TEXT, type TEXT, namespace TEXT,
  tags TEXT, metadata TEXT, embedding BLOB, session_id TEXT, owner_id TEXT, access_level TEXT,
  created_at INTEGER, updated_at INTEGER, expires_at INTEGER, version INTEGER, "references" TEXT,
  access_count INTEGER, last_accessed_at INTEGER);
CREATE TABLE sessions(session_id TEXT PRIMARY KEY, project TEXT, prompt TEXT, started_at INTEGER,
  ended_at INTEGER, summary TEXT, status TEXT, parent_session_id TEXT);
CREATE TABLE user_prompts(session_id TEXT, prompt_number INTEGER, prompt_text TEXT,
  created_at INTEGER);
CREATE TABLE observations(id TEXT PRIMARY KEY, session_id TEXT, project TEXT, tool_name TEXT,
  tool_input TEXT, tool_response TEXT, cwd TEXT, timestamp INTEGER, type TEXT, title TEXT,
  subtitle TEXT, narrative TEXT, facts TEXT, concepts TEXT, files_read TEXT, files_modified TEXT,
  prompt_number INTEGER, compressed_summary TEXT);
CREATE TABLE session_summaries(session_id TEXT, project TEXT, request TEXT, completed TEXT,
  next_steps TEXT, notes TEXT, decisions TEXT, errors TEXT, created_at INTEGER);
"""


def database(path: Path, schema: str) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(schema)
    return connection


def add(connection: apsw.Connection, table: str, **values: Any) -> None:
    names = ", ".join(f'"{name}"' for name in values)
    marks = ", ".join("?" for _ in values)
    connection.execute(f"INSERT INTO {table}({names}) VALUES ({marks})", tuple(values.values()))


def spoil(connection: apsw.Connection, table: str, column: str, where: str) -> None:
    """Make a text of it that is not UTF-8."""
    connection.execute(f"UPDATE {table} SET {column} = CAST(x'ff41' AS TEXT) WHERE {where}")


def read(source: Source) -> tuple[list[Document], list[Skipped]]:
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for unit in source.units():
        assert isinstance(unit, Unit)
        for found in source.read(unit):
            if isinstance(found, Document):
                documents.append(found)
            else:
                skipped.append(found)
    return documents, skipped


@pytest.fixture
def walnut(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = database(tmp_path / "search.sqlite", WALNUT)
    for number, kind in enumerate(("task", "session", "note", "memory", "skill"), 1):
        add(
            connection,
            "doc",
            id=number,
            kind=kind,
            ref=f"{kind}-{number}",
            title=f"标题 {number}",
            note="see OPS-2041",
            updated_at=MS + number,
        )
        add(connection, "doc_vec", doc_id=number, seq=0, vec=bytes(384))
    for token in ("ops-2041", "cr-77", "CR-77B"):
        add(connection, "ident", token=token, doc_id=1, field="note")
    yield connection
    connection.close()


def test_open_walnut_is_read_as_it_is(walnut: apsw.Connection, tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    before = path.read_bytes()
    assert guess(path, Settings()) == "open-walnut"
    documents, skipped = read(OpenWalnut(path, Settings()))
    assert skipped == []
    assert [(d.kind, d.ref, d.title, d.updated_at) for d in documents] == [
        (kind, f"{kind}-{number}", f"标题 {number}", MS + number)
        for number, kind in enumerate(("task", "session", "note", "memory", "skill"), 1)
    ]
    assert documents[0].identifiers == ("CR-77B", "cr-77"), "what its text does not hold"
    assert path.read_bytes() == before
    assert read(OpenWalnut(path, Settings())) == (documents, [])


def test_one_bad_row_is_told_by_name_and_the_rest_kept(
    walnut: apsw.Connection, tmp_path: Path
) -> None:
    spoil(walnut, "doc", "note", "id = 2")
    spoil(walnut, "doc", "ref", "id = 4")
    documents, skipped = read(OpenWalnut(tmp_path / "search.sqlite", Settings()))
    assert [d.ref for d in documents] == ["task-1", "note-3", "skill-5"]
    assert [(each.where, each.reason, each.names) for each in skipped] == [
        ("doc 2", "`note` is not UTF-8", ("session", "session-2")),
        ("doc 4", "`ref` is not UTF-8", None),
    ]


def test_a_locked_file_and_one_that_is_none_are_told(tmp_path: Path) -> None:
    path = tmp_path / "search.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(WALNUT)
    connection.execute("BEGIN EXCLUSIVE")
    settings = Settings(sync_busy_ms=20)
    documents, skipped = read(OpenWalnut(path, settings))
    assert documents == []
    assert [each.reason for each in skipped] == ["locked by another program for too long"]
    connection.execute("ROLLBACK")
    assert read(OpenWalnut(path, settings)) == ([], [])
    connection.close()
    path.write_bytes(b"SQLite format 3\0" + b"rubbish" * 1_000)
    assert [s.reason for s in read(OpenWalnut(path, settings))[1]] == [
        "not a SQLite file, or damaged"
    ]
    path.write_bytes(b"")
    assert [s.reason for s in read(OpenWalnut(path, settings))[1]] == [
        "no column `id` in a table `doc`"
    ]


def test_a_file_whose_folder_is_read_only_is_read(walnut: apsw.Connection, tmp_path: Path) -> None:
    walnut.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    walnut.close()
    copy = tmp_path / "mounted"
    copy.mkdir()
    (copy / "search.sqlite").write_bytes((tmp_path / "search.sqlite").read_bytes())
    (copy / "search.sqlite").chmod(0o400)
    copy.chmod(0o500)
    try:
        assert len(read(OpenWalnut(copy / "search.sqlite", Settings()))[0]) == 5
    finally:
        copy.chmod(0o700)


@pytest.fixture
def agentkits(tmp_path: Path) -> Iterator[apsw.Connection]:
    connection = database(tmp_path / "memory.db", AGENTKITS)
    entry = {"type": "semantic", "namespace": "decisions", "embedding": b"\x99" * 384}
    add(
        connection,
        "memory_entries",
        **entry,
        id="m1",
        key="gateway retries",
        content="three times\0",
        tags=json.dumps(["infra", "网关"]),
        created_at=MS,
        updated_at=MS + 5,
    )
    add(connection, "memory_entries", **entry, id="m2", content="gone", expires_at=MS + 1)
    add(connection, "memory_entries", **entry, id="m3", content="stays", expires_at=MS + 100)
    add(
        connection,
        "sessions",
        session_id="s1",
        project="parcel",
        prompt="fix it\nnow",
        status="done",
        started_at=MS,
        ended_at=MS + 50,
        summary="fixed",
    )
    for number, prompt in ((2, "and test it"), (1, "fix it now")):
        values = {"prompt_number": number, "prompt_text": prompt, "created_at": MS + number}
        add(connection, "user_prompts", session_id="s1", **values)
    add(
        connection,
        "session_summaries",
        session_id="s1",
        request="a fix",
        completed="the fix",
        created_at=MS + 60,
        decisions=json.dumps(["keep it small"]),
    )
    add(
        connection,
        "observations",
        id="o1",
        session_id="s1",
        project="parcel",
        tool_name="Bash",
        type="bug",
        timestamp=MS + 9,
        title="A race",
        subtitle="in the pool",
        narrative="two",
        facts=json.dumps(["f1", "f2"]),
        files_read=json.dumps(["a.py"]),
    )
    yield connection
    connection.close()


def kits(tmp_path: Path, now_ms: int = MS + 50) -> AgentKits:
    return AgentKits(tmp_path / "memory.db", Settings(), lambda: now_ms)


def test_agentkits_is_read_and_what_expired_is_not(
    agentkits: apsw.Connection, tmp_path: Path
) -> None:
    assert guess(tmp_path / "memory.db", Settings()) == "agentkits"
    documents, skipped = read(kits(tmp_path))
    assert skipped == []
    found = {(d.kind, d.ref): d for d in documents}
    assert list(found) == [
        ("memory", "m1"),
        ("memory", "m3"),
        ("session", "s1"),
        ("observation", "o1"),
    ]
    memory, session = found["memory", "m1"], found["session", "s1"]
    assert (memory.title, memory.note, memory.updated_at) == (
        "gateway retries",
        "three times",
        MS + 5,
    )
    assert memory.meta == "type:semantic namespace:decisions tags:infra, 网关"
    assert session.title == "fix it"
    assert session.note == "fix it now\n\nand test it"
    assert session.summary == "fixed\nRequest: a fix\nCompleted: the fix\nDecisions: keep it small"
    assert session.updated_at == MS + 60
    observation = found["observation", "o1"]
    assert (observation.title, observation.summary) == ("A race", "in the pool")
    assert observation.note == "two\nf1, f2\na.py"
    assert observation.updated_at == MS + 9


def test_an_entry_is_gone_once_it_expires_though_the_file_stays(
    agentkits: apsw.Connection, tmp_path: Path
) -> None:
    refs = [d.ref for d in read(kits(tmp_path, MS + 100))[0]]
    assert refs == ["m1", "s1", "o1"]
    agentkits.close()
    moment = time.time() - 100
    for path in tmp_path.glob("memory.db*"):
        os.utime(path, (moment, moment))
    signatures = [
        unit.signature
        for now in (MS, MS + 59_000, MS + 61_000)
        for unit in kits(tmp_path, now).units()
        if isinstance(unit, Unit)
    ]
    assert signatures[0] == signatures[1] != signatures[2]


def test_bad_rows_of_agentkits_are_told_and_the_rest_kept(
    agentkits: apsw.Connection, tmp_path: Path
) -> None:
    spoil(agentkits, "memory_entries", "content", "id = 'm1'")
    spoil(agentkits, "user_prompts", "prompt_text", "prompt_number = 2")
    agentkits.execute("UPDATE observations SET id = ''")
    documents, skipped = read(kits(tmp_path))
    assert [(d.kind, d.ref) for d in documents] == [("memory", "m3"), ("session", "s1")]
    assert [(each.where, each.names) for each in skipped] == [
        ("memory m1", ("memory", "m1")),
        ("user_prompts 1", None),
        ("observation ", None),
    ]


def test_an_earlier_release_without_some_tables_and_columns_is_read(tmp_path: Path) -> None:
    connection = database(
        tmp_path / "memory.db", "CREATE TABLE memory_entries(id TEXT, content TEXT);"
    )
    add(connection, "memory_entries", id="m1", content="x")
    documents, skipped = read(kits(tmp_path))
    assert ([d.ref for d in documents], skipped) == (["m1"], [])
    connection.close()
