"""The client side's SQLite files: those of other programs, read only, and the sync's own state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from service.errors import SetupError


class RowUnreadable(Exception):
    """A row with a text that is not UTF-8; its text names the column."""


def open_foreign(path: Path, *, busy_ms: int) -> apsw.Connection:
    """Open another program's file read-only: nothing is written, nothing in it runs.

    Raises:
        apsw.Error: it cannot be opened.
    """
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    address = f"file:{quote(str(path.absolute()))}"
    connection = _opened(f"{address}?mode=ro", flags, busy_ms)
    try:
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        # A log needs a file beside it, which a folder that is read-only cannot have; without a log
        # the file alone is the truth.
        connection.close()
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise
        connection = _opened(f"{address}?immutable=1", flags, busy_ms)
    except BaseException:
        connection.close()
        raise
    return connection


def _opened(address: str, flags: int, busy_ms: int) -> apsw.Connection:
    connection = apsw.Connection(address, flags=flags)
    connection.set_busy_timeout(busy_ms)
    connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
    connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
    connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
    return connection


@contextlib.contextmanager
def snapshot(path: Path, *, busy_ms: int) -> Iterator[apsw.Connection]:
    """One moment of another program's file.

    Raises:
        apsw.Error: it is locked, damaged or no SQLite file.
    """
    connection = open_foreign(path, busy_ms=busy_ms)
    try:
        connection.execute("BEGIN")
        connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
        yield connection
    finally:
        connection.close()


def reason_of(error: apsw.Error) -> str:
    """Why a file could not be read, for a report."""
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return "locked by another program for too long"
    if isinstance(error, apsw.NotADBError | apsw.CorruptError):
        return "not a SQLite file, or damaged"
    return f"SQLite cannot read it ({type(error).__name__})"


def columns(connection: apsw.Connection, table: str) -> set[str]:
    """The names of a table's columns; none when there is no such table."""
    return {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}


def rows(
    connection: apsw.Connection, table: str, wanted: Sequence[str], *, order: str = "rowid"
) -> Iterator[dict[str, Any]]:
    """The rows of a table, with None for columns it does not have.

    A row with a text that is not UTF-8 has a `RowUnreadable` under the name `error`.
    """
    there = columns(connection, table)
    chosen = [name for name in wanted if name in there]
    # As bytes, since one bad text must not end the reading of all rows.
    shown = ", ".join(
        f"""CASE typeof("{name}") WHEN 'text' THEN CAST("{name}" AS BLOB) ELSE "{name}" END"""
        for name in chosen
    )
    for values in connection.execute(f'SELECT {shown} FROM "{table}" ORDER BY {order}'):
        row: dict[str, Any] = dict.fromkeys(wanted)
        for name, value in zip(chosen, values, strict=True):
            try:
                row[name] = value.decode() if isinstance(value, bytes) else value
            except UnicodeDecodeError:
                row["error"] = RowUnreadable(f"`{name}` is not UTF-8")
        yield row


def open_state(path: Path) -> apsw.Connection:
    """Open or create the sync's own file.

    Raises:
        SetupError: it cannot be written or is something else.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connection = apsw.Connection(str(path))
        connection.set_busy_timeout(1_000)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA temp_store=FILE")
    except (OSError, apsw.Error) as error:
        raise SetupError(
            f"the sync's state {path} cannot be used ({type(error).__name__})",
            hint="Give another place with --state, or remove it: the next sync makes it anew.",
        ) from error
    return connection
