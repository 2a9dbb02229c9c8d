"""The web workers' side of a reader node: which replica to open, how old it is, is it whole.

How a worker reads a replica:

1. `view(file)` says where it lies. None: not here, ask the follower (`activation`).
2. Open that path with `open_reader`, `BEGIN`, and read something (the version, from the file):
   now the connection holds a shared lock and no page can change until it ends.
3. `check_clean(view)`. False: the follower died while writing, or has replaced the file; close the
   connection and start over. It must come after the first read: only the lock makes it lasting.

Replicas must never be read through a memory map: the follower truncates them in place.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from pathlib import Path
from typing import Any

import apsw

from service.errors import Unavailable
from service.replica import vitals
from service.replica.freshness import as_of_ms, now_ms, satisfies
from service.replica.heads import Head
from service.replica.vitals import NodeHealth

NODE_DB = "node.db"
BUSY_TIMEOUT_MS = 5_000

_VIEW = """
SELECT r.path, r.epoch, r.txid, r.version, r.committed_at, r.as_of_ms, r.bytes,
       h.epoch, h.txid, h.version, h.committed_at, h.lag_ms, s.as_of_ms
FROM replica r JOIN head h ON h.file = r.file JOIN shard s ON s.name = h.shard
WHERE r.file = ?
"""
_CLEAN = "SELECT 1 FROM replica WHERE file = ? AND path = ? AND dirty = 0"
_REGISTRY = "SELECT registry FROM shard WHERE registry IS NOT NULL ORDER BY name LIMIT 1"


@dataclasses.dataclass(frozen=True, slots=True)
class ReplicaView:
    """A resident file at one moment.

    Attributes:
        file: its name.
        path: the SQLite file to open; another path later means another file.
        epoch: the writer's epoch of it.
        txid: the last transaction applied.
        version: at least this version is in it; the file itself says which.
        committed_at: when the writer committed that version, Unix ms.
        head_version: the newest version this node has heard of.
        age_ms: how old its knowledge is.
        as_of: the same as a moment, Unix ms.
        bytes: its size.
    """

    file: str
    path: Path
    epoch: int
    txid: int
    version: int
    committed_at: int
    head_version: int
    age_ms: int
    as_of: int
    bytes: int


class ReplicaCache:
    """A worker's view of its node. One connection a thread; each call is one small read."""

    def __init__(self, cache: Path) -> None:
        self._path = cache.absolute() / NODE_DB
        self._local = threading.local()

    def view(self, file: str) -> ReplicaView | None:
        """The replica of a file; None when it is not resident.

        Whether it is whole only `check_clean` can tell: a live follower may be writing just now.

        Raises:
            Unavailable: the follower has not set up this node yet.
        """
        if (row := self._row(_VIEW, (file,))) is None:
            return None
        path, epoch, txid, version, committed_at, replica_as_of, size, *rest = row
        head = Head(*rest[:5])
        moment = as_of_ms(
            satisfied=satisfies(epoch, txid, version, head),
            replica_as_of_ms=replica_as_of,
            shard_as_of_ms=rest[5],
            lag_ms=head.lag_ms,
        )
        age_ms = max(0, round(now_ms() - moment))
        return ReplicaView(
            file=file,
            path=Path(path),
            epoch=epoch,
            txid=txid,
            version=version,
            committed_at=committed_at,
            head_version=head.version,
            age_ms=age_ms,
            as_of=round(time.time() * 1_000) - age_ms,
            bytes=size,
        )

    def check_clean(self, view: ReplicaView) -> bool:
        """Is this still the replica, and whole? Ask while holding a read lock on it."""
        return self._row(_CLEAN, (view.file, str(view.path))) is not None

    def touch(self, view: ReplicaView) -> None:
        """Note that a replica is in use; the least recently used go first when room is short."""
        now = time.time_ns()
        try:
            os.utime(view.path, ns=(now, view.path.stat().st_mtime_ns))
        except FileNotFoundError:
            return  # replaced a moment ago

    def registry_file(self) -> str | None:
        """The file that is the registry; None before the first heads arrived."""
        row = self._row(_REGISTRY, ())
        return None if row is None else str(row[0])

    def node_health(self) -> NodeHealth:
        """What `readyz` needs; nothing known when the follower never ran."""
        try:
            shards = self._rows(vitals.SHARDS_SQL, ())
            replicas = self._row(vitals.REPLICAS_SQL, ())
            troubles = self._rows(vitals.TROUBLES_SQL, ())
        except Unavailable:
            return vitals.NOTHING_KNOWN
        return vitals.health(shards, replicas, troubles)

    def close(self) -> None:
        """Close this thread's connection."""
        if (db := getattr(self._local, "db", None)) is not None:
            self._local.db = None
            db.close()

    def _row(self, sql: str, values: tuple[object, ...]) -> Any:
        """One row as SQLite gives it, or None."""
        rows = self._rows(sql, values)
        return rows[0] if rows else None

    def _rows(self, sql: str, values: tuple[object, ...]) -> list[Any]:
        try:
            return self._connection().execute(sql, values).fetchall()
        except apsw.Error as error:
            self.close()
            raise Unavailable("this node's replica cache is not ready") from error

    def _connection(self) -> apsw.Connection:
        """This thread's connection, to the file that has the name now: the follower may start over.

        Raises:
            Unavailable: there is none.
        """
        try:
            inode = self._path.stat().st_ino
        except FileNotFoundError as error:
            self.close()
            raise Unavailable("this node's follower has not started yet") from error
        if getattr(self._local, "db", None) is None or self._local.inode != inode:
            self.close()
            self._local.db, self._local.inode = connect(self._path.parent, writing=False), inode
        db: apsw.Connection = self._local.db
        return db


def connect(cache: Path, *, writing: bool) -> apsw.Connection:
    """Open a node's own database, for the follower (`writing`) or a worker.

    Raises:
        apsw.Error: it cannot be opened or is damaged.
    """
    # Writable for both, because a reader of a WAL file may have to recover it.
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if writing else 0)
    db = apsw.Connection(str(cache / NODE_DB), flags=flags)
    try:
        db.set_busy_timeout(BUSY_TIMEOUT_MS)
        if writing:
            db.execute("PRAGMA journal_mode=WAL")
            # A crash of a process loses nothing; after one of the machine the folder is wiped.
            db.execute("PRAGMA synchronous=OFF")
        else:
            db.execute("PRAGMA query_only=ON")
    except BaseException:
        db.close()
        raise
    return db
