"""A writer node and reader nodes in one folder, with a real Litestream."""

from __future__ import annotations

import contextlib
import hashlib
import io
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import apsw

from service.index.connection import APPLICATION_ID, open_reader, open_writer
from service.replica import (
    FolderStore,
    Follower,
    FollowerClient,
    FollowerServer,
    LitestreamSupervisor,
    ObjectStore,
    Publisher,
    ReplicaCache,
    current_path,
    local_files,
    new_file,
    plan,
    prepare,
)
from service.replica import heads as documents
from service.replica.fetch import listed
from service.replica.heads import Heads
from service.replica.ltx import NO_CHECKSUM, Header, encode
from service.replica.ltx import Reader as LtxReader
from service.replica.names import replica_prefix
from service.replica.store import Stored
from service.settings import Settings

WAIT_S = 20.0
ACCOUNTS = 50


def eventually(condition: Callable[[], bool], what: str, seconds: float = WAIT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not in {seconds} s: {what}"
        time.sleep(0.005)


def create_tables(db: apsw.Connection) -> None:
    """Stamps, rows that only grow, and accounts whose sum is always 0."""
    db.execute("CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID")
    db.execute("CREATE TABLE row(id INTEGER PRIMARY KEY, version INTEGER, text TEXT)")
    db.execute("CREATE TABLE account(id INTEGER PRIMARY KEY, amount INTEGER, pad TEXT)")
    db.execute(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)"
        " INSERT INTO account SELECT i, 0, hex(randomblob(400)) FROM n",
        (ACCOUNTS,),
    )


def write_batch(db: apsw.Connection, version: int, row_bytes: int = 600) -> None:
    """One committed batch: a row, money moved between two accounts, the stamps."""
    with db:
        db.execute(
            "INSERT INTO row(version, text) VALUES(?, hex(randomblob(?)))",
            (version, row_bytes // 2),
        )
        for account, amount in ((version % ACCOUNTS + 1, 7), ((version * 31) % ACCOUNTS + 1, -7)):
            db.execute("UPDATE account SET amount = amount + ? WHERE id = ?", (amount, account))
        db.execute(
            "INSERT OR REPLACE INTO meta VALUES('version', ?), ('committed_at', ?)",
            (version, int(time.time() * 1_000)),
        )


def whole_version(db: apsw.Connection) -> int:
    """The version inside the open transaction, once all three tables agree with it."""
    version = db.execute("SELECT value FROM meta WHERE key = 'version'").fetchone()
    rows = db.execute("SELECT count(*), max(version) FROM row").fetchone()
    balance = db.execute("SELECT sum(amount), count(*) FROM account").fetchone()
    assert version is not None
    assert rows == (version[0], version[0])
    assert balance == (0, ACCOUNTS)
    return int(version[0])


def digest(path: Path) -> str:
    """Every row of every table of ours: equal digests are equal contents."""
    db = open_reader(path)
    found = hashlib.sha256()
    with db:
        names = db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table'"
            " AND name NOT LIKE '\\_litestream%' ESCAPE '\\' ORDER BY name"
        ).fetchall()
        for (name,) in names:
            for row in db.execute(f"SELECT * FROM {name} ORDER BY 1"):
                found.update(repr((name, row)).encode())
    db.close()
    return found.hexdigest()


def ltx_between(before: bytes, after: bytes, txid: int, page_size: int = 4_096) -> bytes:
    """The LTX file that turns one state of a file into another; a snapshot for txid 1."""

    def page(state: bytes, number: int) -> bytes:
        return state[(number - 1) * page_size : number * page_size]

    commit = len(after) // page_size
    numbers = range(1, commit + 1)
    changed = {n: page(after, n) for n in numbers if txid == 1 or page(before, n) != page(after, n)}
    return encode(Header(NO_CHECKSUM, page_size, commit, txid, txid, 0), changed)


class Writer:
    """A writer node; `start` runs Litestream and the publisher."""

    def __init__(self, root: Path, *, heads_interval_ms: int = 40, heartbeat_ms: int = 200) -> None:
        self.data = root / "data"
        self.store = FolderStore(root / "store")
        self.heads_interval_ms = heads_interval_ms
        self.heartbeat_ms = heartbeat_ms
        self.versions: dict[str, int] = {}
        self.connections: dict[str, apsw.Connection] = {}

    def start(self) -> Writer:
        prepare(self.data, self.store, shard="0")
        self.litestream = LitestreamSupervisor(
            self.data, self.store, sync_interval_ms=100, backoff_ms=1_000
        )
        self.litestream.start()
        self.litestream.wait_initialised(
            [current_path(self.data, file) for file in local_files(self.data)], 10_000
        )
        self.publisher = self.publish()
        return self

    def publish(self, registry: str | None = None) -> Publisher:
        publisher = Publisher(
            self.data,
            self.store,
            shard="0",
            registry=registry,
            heads_interval_ms=self.heads_interval_ms,
            heads_heartbeat_ms=self.heartbeat_ms,
        )
        publisher.start()
        return publisher

    def stop(self) -> None:
        self.publisher.stop(2_000)
        self.litestream.drain(10_000)
        for db in self.connections.values():
            db.close()
        self.connections.clear()

    def create(self, batches: int = 1) -> str:
        file = new_file()
        path = current_path(self.data, file)
        path.parent.mkdir(parents=True)
        db = self.connections[file] = open_writer(path)
        with db:
            create_tables(db)
        self.versions[file] = 0
        for _ in range(batches):
            self.commit(file)
        return file

    def commit(self, file: str, row_bytes: int = 600) -> int:
        if file not in self.connections:
            self.connections[file] = open_writer(self.path(file))
        self.versions[file] += 1
        write_batch(self.connections[file], self.versions[file], row_bytes)
        self.publisher.changed(file)
        return self.versions[file]

    def replicated(self, file: str) -> None:
        self.publisher.replicate_now(file, self.versions[file], 15_000)

    def path(self, file: str) -> Path:
        return current_path(self.data, file)

    def heads(self) -> Heads:
        stored = self.store.get("heads/0.json")
        assert isinstance(stored, Stored)
        return documents.decode(stored.body)


class Reader:
    """A reader node: its follower in a thread, and a worker's two objects."""

    def __init__(
        self, cache: Path, store: ObjectStore, shards: Sequence[str] = ("0",), **limits: int
    ) -> None:
        self.cache = cache
        limits = {"poll_interval_ms": 25, "resident_tenants": 100, **limits}
        self.follower = Follower(cache, store, settings=Settings(**limits), shards=shards)
        self.worker = ReplicaCache(cache)
        self.client = FollowerClient(cache)
        self.counters = self.follower.counters
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        eventually(lambda: self.counters["polls"] > 0, "the follower polls")

    def _run(self) -> None:
        with FollowerServer(self.follower):
            self.follower.run()

    def stop(self) -> None:
        self.follower.stop()
        self._thread.join()
        self.worker.close()

    def version(self, file: str) -> int:
        view = self.worker.view(file)
        return -1 if view is None else view.version

    def reaches(self, file: str, version: int) -> Path:
        eventually(lambda: self.version(file) >= version, f"version {version} arrives")
        view = self.worker.view(file)
        assert view is not None
        return view.path


@contextlib.contextmanager
def reader(
    cache: Path, store: ObjectStore, shards: Sequence[str] = ("0",), **limits: int
) -> Iterator[Reader]:
    node = Reader(cache, store, shards, **limits)
    try:
        yield node
    finally:
        node.stop()


def merge_to_snapshot(writer: Writer, file: str, txid: int) -> tuple[str, bytes]:
    """What Litestream's compaction to level 9 would leave: key and body."""
    pages: dict[int, bytes] = {}
    header = None
    for name in plan.bridge(listed(writer.store, file, 1), 0, txid) or []:
        stream = writer.store.open(name.key)
        assert stream is not None
        with stream:
            found = LtxReader(io.BytesIO(stream.read()))
            pages.update(found.pages())
            header = found.header
    assert header is not None
    pages = {n: page for n, page in pages.items() if n <= header.commit}
    whole = Header(header.flags, header.page_size, header.commit, 1, header.max_txid, 0)
    key = replica_prefix(file, 1) + "ltx/9/" + plan.file_name(1, header.max_txid)
    return key, encode(whole, pages)


class Source:
    """A file that grows batch by batch, and the LTX file of each; no Litestream needed."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.txid = 0
        self._state = b""
        self._db = apsw.Connection(str(path))
        self._db.pragma("application_id", APPLICATION_ID)
        with self._db:
            create_tables(self._db)

    def batch(self, row_bytes: int = 600) -> io.BytesIO:
        """Commit one batch; the LTX file of it, the first one a snapshot."""
        self.txid += 1
        write_batch(self._db, self.txid, row_bytes)
        return self._since_last()

    def shrunk(self) -> io.BytesIO:
        """Commit a batch and give free pages back; the LTX file of both."""
        self.txid += 1
        write_batch(self._db, self.txid, 1)
        self._db.execute("UPDATE row SET text = ''")
        self._db.execute("VACUUM")
        return self._since_last()

    def _since_last(self) -> io.BytesIO:
        # As the writer's file would be: in WAL mode.
        after = bytearray(self.path.read_bytes())
        after[18:20] = b"\x02\x02"
        body = ltx_between(self._state, bytes(after), self.txid)
        self._state = bytes(after)
        return io.BytesIO(body)
