"""Files that nobody else has open: a copy to take away, an earlier state to go on from.

Only such a file may be checkpointed here; a live one is Litestream's alone (see `connection`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import apsw

from service.errors import Unavailable
from service.index.connection import open_private
from service.index.writer import IndexWriter

#: Tables that replication adds to a writer's file; they mean nothing outside of it.
_REPLICATION_TABLES = "name LIKE '\\_litestream%' ESCAPE '\\'"
#: So many pages are copied between two looks at whether the copy is still wanted.
STEP_PAGES = 4_096


def copy_snapshot(
    source: apsw.Connection, path: Path, *, wanted: Callable[[], bool] = lambda: True
) -> int:
    """Copy the state that a connection's open read transaction sees into a new file.

    The copy stands alone: one file, in rollback mode, without what replication added.

    Args:
        source: inside a transaction that has read already.
        path: must not exist.
        wanted: asked now and then; the copy is given up when it says no.

    Returns:
        The copy's size in bytes.

    Raises:
        Unavailable: there is no room for it, or it is not wanted any more; `path` is rubbish.
        apsw.Error: the source cannot be read; `path` is rubbish.
    """
    try:
        copy = open_private(path)
        try:
            with copy.backup("main", source, "main") as backup:
                while not backup.done:
                    if not wanted():
                        raise Unavailable("the copy took too long")
                    backup.step(STEP_PAGES)
            copy.execute("PRAGMA journal_mode=DELETE")
            with copy:
                found = copy.execute(
                    f"SELECT name FROM sqlite_schema WHERE type = 'table' AND {_REPLICATION_TABLES}"
                ).fetchall()
                for (name,) in found:
                    copy.execute(f'DROP TABLE "{name}"')
        finally:
            copy.close()
        return path.stat().st_size
    except (apsw.FullError, apsw.IOError, OSError) as error:
        # A quota that is used up is an I/O error to SQLite.
        raise Unavailable("the disk has no room for the copy", retry_after_s=30) from error


def stamp_next(path: Path, version: int) -> None:
    """Make an earlier state the next one: bring its tables up to this release and stamp it now.

    Args:
        path: nobody else has it open; it is one file again afterwards.
        version: the version it gets, greater than any it had.

    Raises:
        IndexFileError: it is not one of ours.
        Unavailable: there is no room.
    """
    try:
        IndexWriter(path).close()  # its gates rebuild what an earlier release derived
        connection = open_private(path)
        try:
            with connection:
                connection.executemany(
                    "UPDATE meta SET value = ? WHERE key = ?",
                    [(version, "version"), (time.time_ns() // 1_000_000, "committed_at")],
                )
            busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy is None or busy[0]:  # the log would go with the stamps in it
                raise Unavailable("somebody else has the restored file open")
        finally:
            connection.close()
    except (apsw.FullError, apsw.IOError) as error:
        raise Unavailable("there is no room for the restored file", retry_after_s=30) from error
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
