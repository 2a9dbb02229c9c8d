"""A reader node's own small database, `<cache>/node.db`: what the follower knows and has done.

One process, the follower, writes it; web workers read it (`cache`). Nothing in it outlives a boot:
its times are of the monotonic clock, and after a power cut neither it nor the replicas can be
trusted, so the follower starts with an empty folder then.

`replica.dirty` is the heart: it is set while pages are being written and an exclusive lock is held
on the replica. A process that holds a read lock and finds it set knows that the follower died in
the middle.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw

from service.errors import SetupError
from service.replica.cache import NODE_DB, connect
from service.replica.freshness import ShardClock
from service.replica.heads import Head

FILES = "files"
LOCK = "follower.lock"
SCHEMA_VERSION = 2

_SCHEMA = """
CREATE TABLE node(key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE shard(
  name TEXT PRIMARY KEY, seq INTEGER NOT NULL, as_of_ms REAL NOT NULL, polled_ms REAL NOT NULL,
  registry TEXT
) STRICT, WITHOUT ROWID;
CREATE TABLE head(
  file TEXT PRIMARY KEY, shard TEXT NOT NULL, epoch INTEGER NOT NULL, txid INTEGER NOT NULL,
  version INTEGER NOT NULL, committed_at INTEGER NOT NULL, lag_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE replica(
  file TEXT PRIMARY KEY, path TEXT NOT NULL, epoch INTEGER NOT NULL, txid INTEGER NOT NULL,
  version INTEGER NOT NULL, committed_at INTEGER NOT NULL, as_of_ms REAL NOT NULL,
  bytes INTEGER NOT NULL, dirty INTEGER NOT NULL, checked INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE pin(file TEXT PRIMARY KEY, until_ms REAL NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE trouble(
  file TEXT PRIMARY KEY, cause TEXT NOT NULL, since_ms REAL NOT NULL, times INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE canary(
  shard TEXT PRIMARY KEY, version INTEGER NOT NULL, arrived_ms REAL NOT NULL
) STRICT, WITHOUT ROWID;
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Replica:
    """One resident file: its state, and up to when (monotonic ms) it surely has everything."""

    file: str
    path: str
    epoch: int
    txid: int
    version: int
    committed_at: int
    as_of_ms: float
    bytes: int
    dirty: bool = False
    checked: bool = True


class Node:
    """The follower's side of `node.db`; safe to share between its threads."""

    def __init__(self, cache: Path) -> None:
        """Open the node's database; start over when it is of another boot, or damaged.

        Raises:
            SetupError: the folder cannot be written.
        """
        self.cache = cache.absolute()
        self.files = self.cache / FILES
        self._lock = threading.Lock()
        boot = boot_id()
        try:
            self._db = connect(self.cache, writing=True)
            if self._db.pragma("user_version") != SCHEMA_VERSION or self._get("boot") != boot:
                raise apsw.NotADBError
        except apsw.Error:
            self._start_over(boot)
        self.files.mkdir(exist_ok=True)

    def _start_over(self, boot: str) -> None:
        try:
            wipe(self.cache)
            self._db = connect(self.cache, writing=True)
            with self._db:
                self._db.execute(_SCHEMA)
                self._db.pragma("user_version", SCHEMA_VERSION)
                self._db.execute("INSERT INTO node VALUES('boot', ?), ('generation', 0)", (boot,))
        except (apsw.Error, OSError) as error:
            raise SetupError(
                f"cannot use {self.cache} as a reader's cache: {error}",
                hint="Choose a folder that this user can write, with room for replicas.",
            ) from error

    def close(self) -> None:
        """Close the database."""
        with self._lock:
            self._db.close()

    def shards(self) -> dict[str, ShardClock]:
        """What is known of each shard's publications."""
        with self._lock:
            rows: list[Any] = self._db.execute(
                "SELECT name, seq, as_of_ms, polled_ms FROM shard"
            ).fetchall()
        return {name: ShardClock(*rest) for name, *rest in rows}

    def heads(self) -> dict[str, tuple[str, Head]]:
        """The newest head of each file, with its shard."""
        columns = "file, shard, epoch, txid, version, committed_at, lag_ms"
        with self._lock:
            rows: list[Any] = self._db.execute(f"SELECT {columns} FROM head").fetchall()
        return {file: (shard, Head(*rest)) for file, shard, *rest in rows}

    def replicas(self) -> dict[str, Replica]:
        """All resident files."""
        with self._lock:
            rows: list[Any] = self._db.execute("SELECT * FROM replica").fetchall()
        return {row[0]: Replica(*row[:-2], *map(bool, row[-2:])) for row in rows}

    def put_shard(
        self,
        name: str,
        clock: ShardClock,
        registry: str | None,
        changed: dict[str, Head],
        gone: Iterable[str],
        frozen: dict[str, float],
    ) -> None:
        """Take over one publication in a single transaction.

        Args:
            name: the shard.
            clock: its new clock.
            registry: its registry file.
            changed: heads that differ from the ones known.
            gone: files that are no longer there.
            frozen: `as_of_ms` of replicas whose head is among the changed, as of just before.
        """
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO shard VALUES(?, ?, ?, ?, ?)",
                (name, clock.seq, clock.as_of_ms, clock.polled_ms, registry),
            )
            db.executemany(
                "INSERT OR REPLACE INTO head VALUES(?, ?, ?, ?, ?, ?, ?)",
                [
                    (file, name, h.epoch, h.txid, h.version, h.committed_at, h.lag_ms)
                    for file, h in changed.items()
                ],
            )
            db.executemany("DELETE FROM head WHERE file = ?", [(file,) for file in gone])
            db.executemany(
                "UPDATE replica SET as_of_ms = max(as_of_ms, ?) WHERE file = ?",
                [(as_of_ms, file) for file, as_of_ms in frozen.items()],
            )

    def put_polled(self, name: str, polled_ms: float) -> None:
        """A poll that brought nothing new."""
        with self._write() as db:
            db.execute("UPDATE shard SET polled_ms = ? WHERE name = ?", (polled_ms, name))

    def put_replica(self, replica: Replica) -> None:
        """Register a replica, or its new state; one commit, so readers see all or nothing."""
        row = dataclasses.astuple(replica)
        values = (*row[:-2], *map(int, row[-2:]))
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO replica VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", values
            )

    def mark_dirty(self, file: str) -> None:
        """Pages of this replica are about to be written; its exclusive lock is held."""
        with self._write() as db:
            db.execute("UPDATE replica SET dirty = 1 WHERE file = ?", (file,))

    def drop_replica(self, file: str) -> None:
        """The replica is no longer resident."""
        with self._write() as db:
            db.execute("DELETE FROM replica WHERE file = ?", (file,))

    def drop_shard(self, name: str) -> None:
        """The shard and all its heads are gone."""
        with self._write() as db:
            for table, column in (("shard", "name"), ("head", "shard"), ("canary", "shard")):
                db.execute(f"DELETE FROM {table} WHERE {column} = ?", (name,))

    def pins(self) -> dict[str, float]:
        """Until when (monotonic ms) files are kept from eviction."""
        with self._lock:
            rows: list[Any] = self._db.execute("SELECT file, until_ms FROM pin").fetchall()
        return dict(rows)

    def put_pin(self, file: str, until_ms: float) -> None:
        """Keep a file from eviction until then; 0 lets it go."""
        with self._write() as db:
            db.execute("DELETE FROM pin WHERE file = ?", (file,))
            if until_ms:
                db.execute("INSERT INTO pin VALUES(?, ?)", (file, until_ms))

    def put_trouble(self, file: str, cause: str, since_ms: float, times: int) -> None:
        """Catching up has failed so often since then; 0 times ends it."""
        with self._write() as db:
            db.execute("DELETE FROM trouble WHERE file = ?", (file,))
            if times:
                values = (file, cause, since_ms, times)
                db.execute("INSERT INTO trouble VALUES(?, ?, ?, ?)", values)

    def put_canary(self, shard: str, version: int, arrived_ms: float) -> None:
        """A shard's canary arrived."""
        with self._write() as db:
            db.execute(
                "INSERT OR REPLACE INTO canary VALUES(?, ?, ?)", (shard, version, arrived_ms)
            )

    def next_path(self, file: str, epoch: int) -> Path:
        """A path that this cache folder never used before."""
        with self._write() as db:
            db.execute("UPDATE node SET value = value + 1 WHERE key = 'generation'")
            generation = self._get("generation")
        return self.files / f"{file}-{epoch:08d}-{generation}.db"

    def _get(self, key: str) -> object:
        row = self._db.execute("SELECT value FROM node WHERE key = ?", (key,)).fetchone()
        return None if row is None else row[0]

    @contextlib.contextmanager
    def _write(self) -> Iterator[apsw.Connection]:
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")


def boot_id() -> str:
    """What identifies this boot of the machine; monotonic times mean nothing beyond it."""
    path = Path("/proc/sys/kernel/random/boot_id")
    return path.read_text().strip() if path.exists() else "unknown"


def wipe(cache: Path) -> None:
    """Remove what a follower made in its cache folder; everything in it can be fetched again."""
    for path in cache.glob(f"{NODE_DB}*"):
        path.unlink()
    shutil.rmtree(cache / FILES, ignore_errors=True)
