"""What a sync remembers between runs: one SQLite file for each source and tenant.

A document's row is written before the document is sent, so that whatever may have reached the
service is known here. Losing the file is harmless: nothing is deleted then, and what is there
already is found in the manifest.
"""

from __future__ import annotations

import enum
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import apsw

from service.errors import Conflict, SetupError
from service.sources.database import open_state

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS doc(
    key BLOB PRIMARY KEY,
    kind TEXT NOT NULL,
    ref TEXT NOT NULL,
    unit TEXT NOT NULL,
    hash BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    status INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS doc_unit ON doc(unit);
CREATE TABLE IF NOT EXISTS gone(
    key BLOB PRIMARY KEY, updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS unit(
    name TEXT PRIMARY KEY, signature TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS bucket(number INTEGER PRIMARY KEY, digest TEXT NOT NULL) STRICT;
CREATE TEMP TABLE scan(
    key BLOB PRIMARY KEY, kind TEXT, ref TEXT, unit TEXT, hash BLOB, updated_at INTEGER,
    status INTEGER, begin INTEGER, size INTEGER
) WITHOUT ROWID;
"""
_COLUMNS: Final = "key, kind, ref, unit, hash, updated_at, status"


class Status(enum.IntEnum):
    """What is known of a document's version at the service."""

    PENDING = 0
    """Sent perhaps, not acknowledged."""
    SURE = 1
    """The service has it."""
    OUTVOTED = 2
    """The service has something newer, or a deletion that is."""
    REFUSED = 3
    """The service does not take it."""


class Known(NamedTuple):
    """One document as it was last seen here."""

    key: bytes
    kind: str
    ref: str
    unit: str
    hash: bytes
    updated_at: int
    status: int


class Spooled(NamedTuple):
    """A document that is to be sent, and where its line is in the spool."""

    known: Known
    begin: int
    size: int


class State:
    """See the module. Not for several threads or processes at once; the lock sees to it.

    Args:
        path: the file; made when missing.
        identity: of the source and the tenant; must be the same at every run.

    Raises:
        Conflict: another sync uses it now.
        SetupError: it is another source's, or cannot be used.
    """

    def __init__(self, path: Path, identity: str) -> None:
        self.path = path
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock = _locked(path.with_name(f"{path.name}.lock"))
        try:
            self._db = open_state(path)
            self._db.execute(_TABLES)
            self._claim(identity)
        except apsw.Error as error:
            os.close(self._lock)
            raise SetupError(
                f"the sync's state {path} cannot be used ({type(error).__name__})",
                hint="Remove it: the next sync makes it anew, and deletes nothing.",
            ) from error
        except BaseException:
            os.close(self._lock)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        os.close(self._lock)

    # --- what was

    def known(self, key: bytes) -> Known | None:
        """A document of the last run."""
        row: Any = self._db.execute(f"SELECT {_COLUMNS} FROM doc WHERE key = ?", (key,)).fetchone()
        return None if row is None else Known(*row)

    def of_unit(self, unit: str) -> Iterator[Known]:
        """The documents of a unit at the last run."""
        rows: Any = self._db.execute(f"SELECT {_COLUMNS} FROM doc WHERE unit = ?", (unit,))
        yield from (Known(*row) for row in rows)

    def is_pending(self, unit: str) -> bool:
        """Whether a document of a unit may not have reached the service."""
        return bool(
            self._one("SELECT count(*) FROM doc WHERE unit = ? AND status = 0 LIMIT 1", unit)
        )

    def count(self) -> int:
        """How many documents there were at the last run."""
        return int(self._one("SELECT count(*) FROM doc"))

    def gone_at(self, key: bytes) -> int | None:
        """The `updated_at` of a document whose deletion was sent from here."""
        row: Any = self._db.execute("SELECT updated_at FROM gone WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    def signature(self, unit: str) -> str | None:
        """The signature with which a unit was read to its end."""
        row: Any = self._db.execute("SELECT signature FROM unit WHERE name = ?", (unit,)).fetchone()
        return None if row is None else row[0]

    def digests(self) -> dict[int, str]:
        """The buckets of which everything that matters here is known, as they were then."""
        rows: Any = self._db.execute("SELECT number, digest FROM bucket")
        return dict(rows)

    # --- what is: a scan, kept aside until it is adopted

    def forget_scan(self) -> None:
        """Begin a scan."""
        self._db.execute("DELETE FROM temp.scan")

    def seen(self, known: Known, begin: int | None, size: int | None) -> bool:
        """Note a document, and where its line is if it is to be sent; whether it came twice."""
        before = self._one("SELECT count(*) FROM temp.scan WHERE key = ?", known.key)
        self._db.execute(
            "INSERT OR REPLACE INTO temp.scan VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (*known, begin, size),
        )
        return bool(before)

    def keep_unit(self, unit: str) -> None:
        """Take what a unit held at the last run for what it holds; below it, if it is a folder."""
        below = unit if unit.endswith("/") else None
        self._db.execute(
            f"INSERT OR IGNORE INTO temp.scan SELECT {_COLUMNS}, NULL, NULL FROM doc"
            " WHERE unit = ? OR substr(unit, 1, length(?)) = ?",
            (unit, below, below),
        )

    def keep(self, key: bytes) -> None:
        """Take what a document was at the last run for what it is."""
        self._db.execute(
            f"INSERT OR IGNORE INTO temp.scan SELECT {_COLUMNS}, NULL, NULL FROM doc WHERE key = ?",
            (key,),
        )

    def scanned(self, status: Status | None = None) -> int:
        """How many documents a scan saw, with this status."""
        return int(
            self._one("SELECT count(*) FROM temp.scan WHERE ?1 IS NULL OR status = ?1", status)
        )

    def to_send(self) -> Iterator[Spooled]:
        """The documents to be sent, in the order they were seen."""
        rows: Any = self._db.execute(
            f"SELECT {_COLUMNS}, begin, size FROM temp.scan WHERE size IS NOT NULL ORDER BY begin"
        ).fetchall()
        yield from (Spooled(Known(*row[:7]), row[7], row[8]) for row in rows)

    def vanished(self) -> list[Known]:
        """The documents of the last run that are no more."""
        rows: Any = self._db.execute(
            f"SELECT {_COLUMNS} FROM doc WHERE key NOT IN (SELECT key FROM temp.scan) ORDER BY key"
        )
        return [Known(*row) for row in rows]

    # --- what becomes of it

    def adopt(self) -> None:
        """Remember what need not be sent."""
        with self._transaction():
            self._db.execute(
                f"INSERT OR REPLACE INTO doc SELECT {_COLUMNS} FROM temp.scan WHERE size IS NULL"
            )

    def begin(self, documents: Iterable[Known]) -> None:
        """Remember that these are about to be sent."""
        rows = [document._replace(status=Status.PENDING) for document in documents]
        with self._transaction():
            self._put(rows)
            self._db.executemany("DELETE FROM gone WHERE key = ?", [(row.key,) for row in rows])

    def settle(self, documents: Iterable[Known]) -> None:
        """Remember what became of them."""
        with self._transaction():
            self._put(documents)

    def drop(self, documents: Iterable[Known], *, deleted: bool) -> None:
        """Forget documents; if their deletion was sent, remember that."""
        rows = [(document.key, document.updated_at) for document in documents]
        with self._transaction():
            self._db.executemany("DELETE FROM doc WHERE key = ?", [(key,) for key, _ in rows])
            if deleted:
                self._db.executemany("INSERT OR REPLACE INTO gone VALUES (?, ?)", rows)

    def finish(self, digests: Mapping[int, str], signatures: Mapping[str, str]) -> None:
        """Remember the buckets of which everything is known, and the units read to their end."""
        with self._transaction():
            self._db.execute("DELETE FROM bucket")
            self._db.executemany("INSERT INTO bucket VALUES (?, ?)", digests.items())
            self._db.execute("DELETE FROM unit")
            self._db.executemany("INSERT OR REPLACE INTO unit VALUES (?, ?)", signatures.items())

    def _put(self, documents: Iterable[Known]) -> None:
        self._db.executemany("INSERT OR REPLACE INTO doc VALUES (?, ?, ?, ?, ?, ?, ?)", documents)

    def _one(self, sql: str, *values: Any) -> Any:
        row: Any = self._db.execute(sql, values).fetchone()
        return row[0]

    def _claim(self, identity: str) -> None:
        self._db.execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (identity,))
        if self._one("SELECT value FROM meta WHERE key = 'identity'") != identity:
            self._db.close()
            raise SetupError(
                f"{self.path} is the state of another source or tenant",
                hint="Give each source a state of its own, or leave --state out.",
            )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._db:  # COMMIT, or ROLLBACK when something is raised inside
            yield


def _locked(path: Path) -> int:
    """Hold a lock file, which the system releases whatever becomes of this process."""
    try:
        held = os.open(path, os.O_CREAT | os.O_RDWR, 0o600)
    except OSError as error:
        raise SetupError(f"{path} cannot be written ({error.strerror})") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise Conflict(
            "another sync of this source runs now", hint="Wait for it to end, or stop it."
        ) from None
    return held
