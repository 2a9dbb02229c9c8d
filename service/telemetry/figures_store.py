"""The file of a node's own figures: one SQLite file for all its workers, bounded in every way.

Rows are sums by minute and tenant; workers add to the same ones, a transaction each second. Whole
hours are summed once more, so that a day of a thousand tenants is read at a glance. The figures are
disposable: a file that is damaged, or of another release, is begun anew.
"""

from __future__ import annotations

import dataclasses
import logging
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import apsw
import numpy as np

from service.errors import SetupError
from service.index.connection import BUSY_TIMEOUT_MS, open_private
from service.telemetry import stories
from service.telemetry.figures_cells import CELLS, NAMES, Counts, decode, encode, summed

NODE: Final = 0
"""The row of all tenants together."""
OTHERS: Final = 1
"""The row of tenants beyond those that have rows of their own."""
HOUR: Final = 60
SETTLED_MIN: Final = 2
"""How long after its end an hour is summed: the last figures of its last minute are written."""

BUSY_POLL_MS: Final = 10
"""Between two tries of a file that another worker is just making."""

_ROW: Final = """(
    at INTEGER, tenant INTEGER, cpu_us INTEGER NOT NULL, age_ms INTEGER NOT NULL,
    documents INTEGER NOT NULL, version INTEGER NOT NULL,
    counts BLOB NOT NULL, PRIMARY KEY (at, tenant)
) WITHOUT ROWID;
"""
_SCHEMA: Final = f"""
CREATE TABLE tenants(id INTEGER PRIMARY KEY, name TEXT UNIQUE, seen INTEGER NOT NULL);
INSERT INTO tenants VALUES ({NODE}, NULL, 0), ({OTHERS}, NULL, 0);
CREATE TABLE minutes{_ROW}
CREATE TABLE hours{_ROW}
CREATE TABLE lost(figures INTEGER NOT NULL);
INSERT INTO lost VALUES (0);
{stories.SCHEMA}
"""
_RELEASE: Final = zlib.crc32("\n".join((_SCHEMA, *NAMES)).encode()) & 0x7FFF_FFFF
COLUMNS: Final = "at, tenant, cpu_us, age_ms, documents, version, counts"

_log = logging.getLogger(__name__)


@dataclasses.dataclass(slots=True)
class Sum:
    """What is known of some searches together.

    Attributes:
        counts: how often, by cell.
        cpu_us: what they cost, in CPU time.
        age_ms: the oldest thing that was answered from.
        documents: of the index, at the last of them.
        version: of the index, at the last of them.
    """

    counts: Counts = dataclasses.field(default_factory=lambda: np.zeros(CELLS, np.int64))
    cpu_us: int = 0
    age_ms: int = 0
    documents: int = 0
    version: int = 0

    def add(self, other: Sum) -> None:
        """Add later ones."""
        self.counts += other.counts
        self.cpu_us += other.cpu_us
        self.age_ms = max(self.age_ms, other.age_ms)
        self.documents, self.version = other.documents, other.version


def collect(rows: Iterable[Sequence[Any]]) -> dict[int, Sum]:
    """Rows of `COLUMNS`, oldest first, summed by tenant."""
    sums: dict[int, Sum] = {}
    places: dict[int, int] = {}
    parts: list[tuple[int, bytes]] = []
    for _, tenant, cpu_us, age_ms, documents, version, counts in rows:
        place = places.get(tenant)
        if place is None:
            place = places[tenant] = len(places)
            sums[tenant] = Sum(_NONE)
        found = sums[tenant]
        found.cpu_us += cpu_us
        if age_ms > found.age_ms:
            found.age_ms = age_ms
        found.documents, found.version = documents, version
        parts.append((place, counts))
    counted = summed(parts, len(places))
    for tenant, place in places.items():
        sums[tenant].counts = counted[place]
    return sums


class FiguresStore:
    """One connection to the file; belongs to one thread at a time.

    Args:
        path: the file; made, or made anew, when it is not one of this release.

    Raises:
        SetupError: it cannot be made.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self.connection = _open(path)
            self._inode = path.stat().st_ino
        except (OSError, apsw.CantOpenError, apsw.ReadOnlyError) as error:
            raise SetupError(
                f"the figures in {path.parent} cannot be used ({error})",
                hint="Give this role a data folder it may write to.",
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()

    @property
    def current(self) -> bool:
        """Whether this is still the file at its path: another worker may have begun it anew."""
        try:
            return self._path.stat().st_ino == self._inode
        except FileNotFoundError:
            return False

    @contextmanager
    def change(self) -> Iterator[None]:
        """A transaction that changes the file."""
        self.connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK")
            raise
        self.connection.execute("COMMIT")

    def tenant_id(self, name: str, minute: int, most: int) -> int:
        """The number of a tenant, in a change; `OTHERS` when there are too many already."""
        execute = self.connection.execute
        found: Any = execute(
            "UPDATE tenants SET seen = max(seen, ?) WHERE name = ? RETURNING id", (minute, name)
        ).fetchall()
        if not found:
            if execute("SELECT count(*) - 2 FROM tenants").get >= most:
                return OTHERS
            found = execute(
                "INSERT INTO tenants(name, seen) VALUES (?, ?) RETURNING id", (name, minute)
            ).fetchall()
        return found[0][0]  # type: ignore[no-any-return]

    def merge(self, sums: Mapping[tuple[int, int], Sum]) -> None:
        """Add to the rows by (minute, tenant), in a change."""
        rows = []
        for (minute, tenant), found in sums.items():
            earlier: list[Any] = self.connection.execute(
                "SELECT cpu_us, age_ms, counts FROM minutes WHERE at = ? AND tenant = ?",
                (minute, tenant),
            ).fetchall()
            counts, cpu_us, age_ms = found.counts, found.cpu_us, found.age_ms
            for known_us, known_ms, known in earlier:
                cpu_us, age_ms = cpu_us + known_us, max(age_ms, known_ms)
                counts = counts + decode(known)
            gauges = (found.documents, found.version)
            rows.append((minute, tenant, cpu_us, age_ms, *gauges, encode(counts)))
        self._put("minutes", rows)

    def note_lost(self, figures: int) -> None:
        """Count searches whose figures could not be kept, in a change."""
        self.connection.execute("UPDATE lost SET figures = figures + ?", (figures,))

    def tidy(self, minute: int, *, minutes: int, most_bytes: int) -> None:
        """Sum the hours that are over and forget what is too old or too much, in a change.

        Args:
            minute: the present one.
            minutes: how many are kept.
            most_bytes: how large the file may be.
        """
        self._sum_hours(minute)
        self._forget(minute - minutes)
        while self._used_bytes() > most_bytes:
            first, last = self.connection.execute("SELECT min(at), max(at) FROM minutes").get
            if first is None or first == last:
                break
            self._forget(first + 1 + (last - first) // 16)

    # --- inside

    def _sum_hours(self, minute: int) -> None:
        execute = self.connection.execute
        done: int | None = execute("SELECT max(at) FROM hours").get
        begin = execute(
            "SELECT min(at) FROM minutes WHERE at >= ?", (0 if done is None else done + HOUR,)
        ).get
        end = (minute - SETTLED_MIN) // HOUR * HOUR
        if begin is None:
            return
        for hour in range(begin // HOUR * HOUR, end, HOUR):
            rows = execute(
                f"SELECT {COLUMNS} FROM minutes WHERE at >= ? AND at < ? ORDER BY at, tenant",
                (hour, hour + HOUR),
            )
            self._put(
                "hours",
                [
                    (
                        hour,
                        tenant,
                        found.cpu_us,
                        found.age_ms,
                        found.documents,
                        found.version,
                        encode(found.counts),
                    )
                    for tenant, found in collect(rows).items()
                ],
            )

    def _forget(self, before: int) -> None:
        execute = self.connection.execute
        execute("DELETE FROM minutes WHERE at < ?", (before,))
        execute("DELETE FROM hours WHERE at + ? <= ?", (HOUR, before))
        execute("DELETE FROM tenants WHERE id > ? AND seen < ?", (OTHERS, before))

    def _used_bytes(self) -> int:
        pragma = self.connection.pragma
        pages = pragma("page_count") - pragma("freelist_count")
        return int(pages * pragma("page_size"))

    def _put(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        self.connection.executemany(
            f"INSERT OR REPLACE INTO {table}({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)", rows
        )


_NONE: Final[Counts] = np.zeros(0, np.int64)


def _open(path: Path) -> apsw.Connection:
    """The file as this release makes it; whatever else lies there is removed."""
    try:
        return _awaited(path)
    except (_OtherRelease, apsw.CorruptError, apsw.NotADBError) as error:
        _log.warning("the figures in %s are begun anew (%s)", path.name, type(error).__name__)
        for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
            path.with_name(name).unlink(missing_ok=True)
        return _awaited(path)


def _awaited(path: Path) -> apsw.Connection:
    """The file, once no other worker is just turning it to WAL: SQLite waits for that nowhere.

    Its busy handler is not asked when a change of the journal mode finds a lock, so of workers that
    start at the same moment all but one would fail (https://sqlite.org/c3ref/busy_handler.html).
    """
    deadline = time.monotonic() + BUSY_TIMEOUT_MS / 1_000
    while True:
        try:
            return _opened(path)
        except apsw.BusyError:
            if time.monotonic() > deadline:
                raise
            time.sleep(BUSY_POLL_MS / 1_000)


class _OtherRelease(Exception):
    """The file was made by another release."""


def _opened(path: Path) -> apsw.Connection:
    connection = open_private(path)
    try:
        path.chmod(0o600)
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("BEGIN IMMEDIATE")
        release = connection.pragma("user_version")
        if release == 0 and connection.pragma("schema_version") == 0:
            connection.execute(_SCHEMA)
            connection.pragma("user_version", _RELEASE)
        elif release != _RELEASE:
            raise _OtherRelease
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection
