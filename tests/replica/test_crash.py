"""A follower that dies at any moment leaves nothing that a worker would mistake for a replica."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

from service.errors import NotFound
from service.index.connection import open_reader
from service.replica import ReplicaCache
from service.replica import node as node_module
from service.replica.node import Node
from tests.replica.world import Writer, digest, eventually, reader, whole_version

FOLLOW = """
import os, signal, sys
from pathlib import Path
from service.replica import Follower, FollowerServer, FolderStore
from service.replica import apply
from service.settings import Settings

as_replica = apply.as_replica

def die(page, counter):
    # The last write of an apply, page 1, is about to come; a new file gets counter 1.
    if counter > 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return as_replica(page, counter)

if sys.argv[3] == "die":
    apply.as_replica = die
follower = Follower(
    Path(sys.argv[1]), FolderStore(Path(sys.argv[2])), settings=Settings(poll_interval_ms=20)
)
with FollowerServer(follower):
    print("ready", flush=True)
    follower.run()
"""


@contextmanager
def follower(cache: Path, writer: Writer, mode: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", FOLLOW, str(cache), str(writer.store.root), mode]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        try:
            yield process
        finally:
            process.kill()


def protocol_read(worker: ReplicaCache, file: str) -> int | None:
    """What a worker does; None where it must ask the follower first."""
    view = worker.view(file)
    if view is None:
        return None
    try:
        db = open_reader(view.path)
    except NotFound:
        return None  # replaced a moment ago
    try:
        with db:
            db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
            version = whole_version(db) if worker.check_clean(view) else None
    finally:
        db.close()
    return version


def test_death_in_the_middle_of_an_apply_is_seen_and_healed(writer: Writer, tmp_path: Path) -> None:
    file = writer.create(batches=3)
    writer.replicated(file)
    worker = ReplicaCache(tmp_path)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 3, deadline_ms=10_000)
    with follower(tmp_path, writer, "die") as process:
        writer.commit(file, row_bytes=50_000)
        assert process.wait(20) == -signal.SIGKILL
    view = worker.view(file)
    assert view is not None
    assert not worker.check_clean(view)
    assert protocol_read(worker, file) is None
    with reader(tmp_path, writer.store) as node:
        path = node.reaches(file, 4)
        assert node.counters["reseed_dirty"] == 1
        assert protocol_read(worker, file) == 4
        assert digest(path) == digest(writer.path(file))
        assert list(tmp_path.glob("files/*")) == [path]
    worker.close()


def test_death_at_random_moments_never_shows_a_torn_state(writer: Writer, tmp_path: Path) -> None:
    file = writer.create()
    writer.replicated(file)
    worker = ReplicaCache(tmp_path)
    chance = random.Random(7)
    done = threading.Event()

    def commit() -> None:
        while not done.wait(0.004):
            writer.commit(file, row_bytes=chance.randrange(100, 20_000))

    thread = threading.Thread(target=commit)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
    thread.start()
    try:
        last = reads = 0
        for _ in range(6):
            with follower(tmp_path, writer, "live"):
                for _ in range(chance.randrange(20, 150)):
                    version = protocol_read(worker, file)
                    if version is not None:
                        assert version >= last
                        last = version
                        reads += 1
        assert reads > 0
    finally:
        done.set()
        thread.join()
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        assert digest(node.reaches(file, writer.versions[file])) == digest(writer.path(file))
    worker.close()


def test_a_cache_of_another_boot_is_thrown_away(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = writer.create()
    writer.replicated(file)
    worker = ReplicaCache(tmp_path)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
        assert worker.view(file) is not None
    monkeypatch.setattr(node_module, "boot_id", lambda: "another")
    with reader(tmp_path, writer.store) as node:
        assert worker.view(file) is None  # a worker notices the new database by itself
        node.client.ensure(file, 1, deadline_ms=10_000)
        assert worker.view(file) is not None
        assert len(list(tmp_path.glob("files/*"))) == 1
    worker.close()


@pytest.mark.parametrize("damage", ["rubbish", "empty", "foreign"])
def test_an_unreadable_node_database_is_started_over(tmp_path: Path, damage: str) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "left.db").write_bytes(b"over")
    path = tmp_path / "node.db"
    if damage == "foreign":
        db = apsw.Connection(str(path))
        db.execute("CREATE TABLE other(x)")
        db.close()
    else:
        path.write_bytes(b"rubbish" * 1_000 if damage == "rubbish" else b"")
    node = Node(tmp_path)
    assert node.replicas() == {}
    assert list((tmp_path / "files").iterdir()) == []
    node.close()


def test_the_dirty_mark_is_on_disk_before_the_first_page(tmp_path: Path) -> None:
    """Another process sees it at once: it is committed, not only set."""
    node = Node(tmp_path)
    node.put_replica(node_module.Replica("a" * 26, "/x", 1, 1, 1, 0, 0.0, 0))
    node.mark_dirty("a" * 26)
    other = sqlite3.connect(tmp_path / "node.db")
    assert other.execute("SELECT dirty FROM replica").fetchall() == [(1,)]
    other.close()
    node.close()


def test_following_waits_while_the_store_is_away(own_writer: Writer, tmp_path: Path) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    with reader(tmp_path / "cache", own_writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
        heads = own_writer.store.root / "heads"
        away = heads.with_name("away")
        heads.rename(away)
        heads.write_bytes(b"")  # so that reading fails, rather than finding nothing
        eventually(lambda: node.counters["failed_polls"] > 2, "polls fail")
        assert protocol_read(node.worker, file) == 1
        heads.unlink()
        away.rename(heads)
        own_writer.commit(file)
        node.reaches(file, 2)
