from __future__ import annotations

from pathlib import Path

import apsw
import pytest

from service.errors import IndexCorrupt, NotFound
from service.index.connection import APPLICATION_ID, open_reader, open_writer


def test_a_writer_never_checkpoints(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    connection = open_writer(path)
    assert connection.pragma("wal_autocheckpoint") == 0
    assert connection.pragma("journal_mode") == "wal"
    assert connection.pragma("synchronous") == 1
    connection.execute("CREATE TABLE t(x)")
    for _ in range(20):
        connection.execute("INSERT INTO t SELECT randomblob(100000) FROM (SELECT 1 UNION SELECT 2)")
    wal = path.with_name("a.db-wal")
    before = wal.stat().st_size
    assert before > 20 * 200_000
    connection.close()
    assert wal.stat().st_size == before, "closing must leave the WAL to Litestream"


def test_a_writer_stamps_its_file(tmp_path: Path) -> None:
    open_writer(tmp_path / "a.db").close()
    assert open_reader(tmp_path / "a.db").pragma("application_id") == APPLICATION_ID


def test_a_reader_writes_nothing_and_runs_nothing_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.db"
    writer = open_writer(path)
    writer.execute("CREATE TABLE t(x); INSERT INTO t VALUES (1); CREATE VIEW v AS SELECT x FROM t")
    reader = open_reader(path)
    with pytest.raises(apsw.ReadOnlyError):
        reader.execute("INSERT INTO t VALUES (2)")
    with pytest.raises(apsw.SQLError):
        reader.execute("SELECT * FROM v").fetchall()
    assert reader.execute("SELECT x FROM t").fetchall() == [(1,)]


def test_a_reader_refuses_what_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        open_reader(tmp_path / "missing.db")
    apsw.Connection(str(tmp_path / "foreign.db")).execute("CREATE TABLE t(x)")
    with pytest.raises(IndexCorrupt, match="another application"):
        open_reader(tmp_path / "foreign.db")
    (tmp_path / "text.db").write_text("hello" * 1000)
    with pytest.raises(IndexCorrupt, match="not a SQLite file"):
        open_reader(tmp_path / "text.db")
