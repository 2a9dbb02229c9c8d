from __future__ import annotations

import concurrent.futures
import os
import signal
import time
from pathlib import Path

import pytest

from service.errors import NotFound, ReplicaBehind, SetupError, Unavailable
from service.index.connection import open_reader
from service.replica import Follower, FollowerClient, ReplicaCache, ReplicaView, new_file
from service.replica.fetch import listed
from service.settings import Settings
from tests.replica.world import Writer, digest, eventually, merge_to_snapshot, reader, whole_version


def view(cache: ReplicaCache, file: str) -> ReplicaView:
    found = cache.view(file)
    assert found is not None
    return found


def test_contents_are_equal_at_equal_version(writer: Writer, tmp_path: Path) -> None:
    file = writer.create(batches=5)
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 5, deadline_ms=10_000)
        for turn in range(40):
            writer.commit(file, row_bytes=600 + 700 * (turn % 5))
            if turn % 4 == 0:
                path = node.reaches(file, writer.versions[file])
                assert digest(path) == digest(writer.path(file))
        path = node.reaches(file, writer.versions[file])
        assert digest(path) == digest(writer.path(file))
        assert node.counters["seeds"] == 1
        assert node.counters["applies"] > 5
        assert node.counters["reseeds"] == 0


def test_a_cold_file_is_restored_once_however_many_ask(writer: Writer, tmp_path: Path) -> None:
    file = writer.create(batches=3)
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        assert node.worker.view(file) is None
        with concurrent.futures.ThreadPoolExecutor(16) as pool:
            asked = [
                pool.submit(node.client.ensure, file, 3, deadline_ms=10_000) for _ in range(48)
            ]
        assert {future.result() for future in asked} == {3}
        assert node.counters["seeds"] == 1
        found = view(node.worker, file)
        assert (found.version, found.head_version, found.epoch) == (3, 3, 1)
        assert node.client.counters()["seeds"] == 1


def test_a_version_that_comes_is_waited_for(writer: Writer, tmp_path: Path) -> None:
    file = writer.create()
    writer.replicated(file)
    with (
        reader(tmp_path, writer.store, poll_interval_ms=60_000) as node,
        concurrent.futures.ThreadPoolExecutor(1) as pool,
    ):
        node.client.ensure(file, 1, deadline_ms=10_000)
        asked = pool.submit(node.client.ensure, file, 2, deadline_ms=15_000)
        writer.commit(file)
        assert asked.result() == 2
        assert node.version(file) == 2


def test_a_version_that_does_not_come_is_refused_with_what_there_is(
    writer: Writer, tmp_path: Path
) -> None:
    file = writer.create(batches=2)
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 0, deadline_ms=10_000)
        with pytest.raises(ReplicaBehind) as caught:
            node.client.ensure(file, 3, deadline_ms=150)
        assert caught.value.version == 2
        assert caught.value.age_ms < 60_000


def test_an_unknown_file_is_not_found_and_an_unusable_request_refused(
    writer: Writer, tmp_path: Path
) -> None:
    with reader(tmp_path, writer.store) as node:
        with pytest.raises(NotFound):
            node.client.ensure(new_file(), deadline_ms=10_000)
        with pytest.raises(Unavailable):
            node.client.ensure("../../etc/passwd", deadline_ms=1_000)


def test_lost_level_zero_files_are_made_up_for_by_a_snapshot(
    own_writer: Writer, tmp_path: Path
) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    with reader(tmp_path / "cache", own_writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
        before = view(node.worker, file)
    # While the node is away a commit comes and its object goes; a snapshot covers it.
    own_writer.commit(file)
    own_writer.replicated(file)
    head = own_writer.heads().tenants[file]
    names = listed(own_writer.store, file, 1)
    rebuilt = merge_to_snapshot(own_writer, file, head.txid)
    for name in names:
        own_writer.store.delete(name.key)
    own_writer.store.put(*rebuilt)
    with reader(tmp_path / "cache", own_writer.store) as node:
        path = node.reaches(file, 2)
        assert node.counters["reseed_gap"] == 1
        assert path != before.path
        assert digest(path) == digest(own_writer.path(file))


def test_a_gap_that_nothing_bridges_is_an_error_until_it_closes(
    own_writer: Writer, tmp_path: Path
) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    with reader(tmp_path / "cache", own_writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
    own_writer.commit(file)
    own_writer.replicated(file)
    head = own_writer.heads().tenants[file]
    key, body = merge_to_snapshot(own_writer, file, head.txid)
    for name in listed(own_writer.store, file, 1):
        own_writer.store.delete(name.key)
    with reader(tmp_path / "cache", own_writer.store) as node:
        eventually(lambda: node.counters["failed_catch_ups"] > 1, "it tries and fails")
        assert node.counters["reseed_gap"] > 0
        assert node.version(file) == 1  # what is here goes on serving, and ages
        assert view(node.worker, file).head_version == 2
        own_writer.store.put(key, body)
        assert digest(node.reaches(file, 2)) == digest(own_writer.path(file))


def test_a_damaged_object_is_never_applied(own_writer: Writer, tmp_path: Path) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    with reader(tmp_path / "cache", own_writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
    own_writer.commit(file)
    own_writer.replicated(file)
    last = max(listed(own_writer.store, file, 1), key=lambda name: (name.max_txid, -name.level))
    sound = (own_writer.store.root / last.key).read_bytes()
    damaged = bytearray(sound)
    damaged[len(damaged) // 2] ^= 0x10
    own_writer.store.put(last.key, bytes(damaged))
    with reader(tmp_path / "cache", own_writer.store) as node:
        eventually(lambda: node.counters["failed_catch_ups"] > 0, "it is refused")
        assert node.counters["damaged_ltx"] > 0
        assert node.version(file) == 1
        db = open_reader(view(node.worker, file).path)
        with db:
            assert whole_version(db) == 1
        db.close()
        own_writer.store.put(last.key, sound)
        assert digest(node.reaches(file, 2)) == digest(own_writer.path(file))


def test_a_new_epoch_is_restored_anew(writer: Writer, tmp_path: Path) -> None:
    """As after a writer's restore: the same file under the next epoch."""
    file = writer.create(batches=3)
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 3, deadline_ms=10_000)
        old = view(node.worker, file)
        stale = open_reader(old.path)
        db = writer.connections.pop(file)
        target = writer.path(file).with_name("00000002.db")
        db.execute("VACUUM INTO ?", (str(target),))
        db.close()
        writer.commit(file)
        eventually(lambda: view(node.worker, file).epoch == 2, "the new epoch arrives")
        path = node.reaches(file, 4)
        assert digest(path) == digest(target)
        assert node.counters["reseed_epoch"] == 1
        assert not old.path.exists()
        assert not node.worker.check_clean(old)
        with stale:
            assert whole_version(stale) == 3  # a running query ends in peace
        stale.close()


def test_age_grows_while_litestream_stands_still_and_falls_after(
    own_writer: Writer, tmp_path: Path
) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    with reader(tmp_path / "cache", own_writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
        eventually(lambda: view(node.worker, file).age_ms < 1_000, "it is fresh")
        pid = own_writer.litestream.child.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        own_writer.commit(file)
        eventually(lambda: view(node.worker, file).age_ms > 2_500, "it ages")
        health = node.worker.node_health()
        assert health.heads_age_ms is not None
        assert health.heads_age_ms > 2_000
        assert not health.ready(2_000)
        assert health.polled_age_ms is not None
        assert health.polled_age_ms < health.heads_age_ms  # the follower itself is fine
        os.kill(pid, signal.SIGCONT)
        node.reaches(file, 2)
        eventually(lambda: view(node.worker, file).age_ms < 1_000, "it is fresh again")


def test_age_never_claims_a_commit_that_is_not_there(
    writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever was committed before `as_of` is in the replica: looked at all the time."""
    put, puts = writer.store.put, [0.0]

    def timed(key: str, body: bytes) -> None:
        began = time.monotonic()
        put(key, body)
        puts.append((time.monotonic() - began) * 1_000)

    monkeypatch.setattr(writer.store, "put", timed)
    file = writer.create()
    writer.replicated(file)
    committed: list[tuple[float, int]] = [(0.0, 1)]
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
        for _ in range(60):
            version = writer.commit(file)
            committed.append((time.monotonic() * 1_000, version))
            for _ in range(5):
                now = time.monotonic() * 1_000
                found = view(node.worker, file)
                db = open_reader(found.path)
                with db:
                    held = whole_version(db)
                db.close()
                # One millisecond for the rounding of `age_ms`, and what freshness.py allows.
                as_of_ms = now - found.age_ms - 1 - max(puts)
                assert held >= max(v for at, v in committed if at <= as_of_ms)
                time.sleep(0.002)


def test_the_registry_is_always_resident(own_writer: Writer, tmp_path: Path) -> None:
    registry = own_writer.create()
    own_writer.replicated(registry)
    own_writer.publisher.stop(2_000)
    own_writer.publisher = own_writer.publish(registry)
    own_writer.commit(registry)
    own_writer.replicated(registry)
    with reader(tmp_path / "cache", own_writer.store, resident_tenants=1) as node:
        node.reaches(registry, 2)
        assert node.worker.registry_file() == registry
        assert node.worker.node_health().registry_resident
        assert node.counters["evictions"] == 0


def test_the_least_recently_used_make_room(writer: Writer, tmp_path: Path) -> None:
    files = [writer.create() for _ in range(4)]
    for file in files:
        writer.replicated(file)
    with reader(tmp_path, writer.store, resident_tenants=2) as node:
        for file in files[:2]:
            node.client.ensure(file, 1, deadline_ms=10_000)
        os.utime(view(node.worker, files[1]).path, (1, 1))
        node.worker.touch(view(node.worker, files[0]))
        node.client.ensure(files[2], 1, deadline_ms=10_000)
        eventually(lambda: node.counters["evictions"] == 1, "one goes")
        assert [node.worker.view(file) is not None for file in files[:3]] == [True, False, True]
        node.client.ensure(files[1], 1, deadline_ms=10_000)  # and comes back when asked for


def test_a_forgotten_file_leaves_the_readers(writer: Writer, tmp_path: Path) -> None:
    file = writer.create()
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
        path = view(node.worker, file).path
        writer.publisher.forget(file, 5_000)
        eventually(lambda: not path.exists(), "it is gone")
        assert node.worker.view(file) is None
        with pytest.raises(NotFound):
            node.client.ensure(file, deadline_ms=10_000)


def test_a_cache_serves_one_follower(writer: Writer, tmp_path: Path) -> None:
    with reader(tmp_path, writer.store), pytest.raises(SetupError):
        Follower(tmp_path, writer.store, settings=Settings())


def test_without_a_follower_the_resident_files_go_on_serving(
    writer: Writer, tmp_path: Path
) -> None:
    file = writer.create()
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
    worker = ReplicaCache(tmp_path)
    found = view(worker, file)
    assert worker.check_clean(found)
    with pytest.raises(Unavailable):
        FollowerClient(tmp_path).ensure(file, 2, deadline_ms=1_000)
    eventually(lambda: view(worker, file).age_ms > found.age_ms, "it ages")
    worker.close()


def test_a_replica_damaged_on_disk_is_restored_when_a_worker_says_so(
    writer: Writer, tmp_path: Path
) -> None:
    file = writer.create(batches=20)
    writer.replicated(file)
    with reader(tmp_path, writer.store) as node:
        node.client.ensure(file, 20, deadline_ms=10_000)
        found = view(node.worker, file)
        assert node.client.suspect(file, deadline_ms=5_000) is False
        with found.path.open("r+b") as raw:
            raw.seek(4096 * 3)
            raw.write(b"\xff" * 4096 * 5)
        assert node.client.suspect(file, deadline_ms=5_000) is True
        eventually(lambda: view(node.worker, file).path != found.path, "a new file")
        assert digest(view(node.worker, file).path) == digest(writer.path(file))
        assert (node.counters["false_alarms"], node.counters["reseed_dirty"]) == (1, 1)
