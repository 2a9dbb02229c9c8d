from __future__ import annotations

import os
import sqlite3
import time
from pathlib import Path

import pytest

from service.errors import IndexCorrupt, ReplicaBehind
from service.index.connection import open_reader
from service.node.replicas import Replicas
from service.replica import Canary, canary_file
from service.replica.counters import Counters
from service.replica.quarantine import Quarantine
from service.settings import Settings
from tests.replica.shard_world import Shard, path_of, stuck
from tests.replica.world import digest, eventually, reader, whole_version

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("quick_retries")


# --- litestream#1515: objects that a follower needs are gone


def test_deleted_objects_are_noticed_at_once_and_made_up_for(tmp_path: Path, shard: Shard) -> None:
    file = shard.create(3)
    shard.publish()
    with reader(tmp_path / "cache", shard.store) as node:
        node.client.ensure(file, 3, deadline_ms=10_000)
        for _ in range(3):
            shard.commit(file)
        shard.delete_objects(file)
        shard.snapshot(file)
        shard.publish()
        path = node.reaches(file, 6)
        assert digest(path) == digest(shard._sources[file].path)
        assert node.counters["reseed_gap"] == 1


def test_without_a_snapshot_the_tenant_ages_in_sight_and_is_refused_to_who_minds(
    tmp_path: Path, shard: Shard
) -> None:
    file = shard.create(2)
    shard.publish()
    with reader(tmp_path / "cache", shard.store, frozen_ms=100) as node:
        node.client.ensure(file, 2, deadline_ms=10_000)
        shard.commit(file)
        shard.delete_objects(file)
        shard.publish()
        eventually(lambda: node.counters["frozen"] > 1, "it is called frozen, again and again")
        assert node.counters["reseed_frozen"] > 0
        assert stuck(node, "store") == 1
        health = node.worker.node_health()
        assert "1 tenants cannot be brought up (store)" in str(health.warnings(60_000))
        for min_version, age in ((3, None), (0, 50)):
            with pytest.raises(ReplicaBehind) as caught:
                node.client.ensure(file, min_version, deadline_ms=200, max_age_ms=age)
            assert caught.value.version == 2
        view = node.worker.view(file)
        assert view is not None
        eventually(lambda: node.worker.view(file).age_ms > view.age_ms, "it ages")  # type: ignore[union-attr]
        shard.snapshot(file)
        node.reaches(file, 3)
        eventually(lambda: stuck(node, "store") == 0, "nothing is wrong any more")


def test_a_replica_that_a_query_never_lets_go_is_replaced(tmp_path: Path, shard: Shard) -> None:
    """Version frozen by a reader's lock: a new file needs no lock of the old."""
    file = shard.create()
    shard.publish()
    with reader(tmp_path / "cache", shard.store, frozen_ms=50) as node:
        node.client.ensure(file, 1, deadline_ms=10_000)
        held = open_reader(path_of(node, file))
        with held:
            assert whole_version(held) == 1
            shard.commit(file)
            shard.publish()
            node.reaches(file, 2)
            assert node.counters["lock_timeouts"] > 0
            assert node.counters["reseed_frozen"] == 1
            assert whole_version(held) == 1
        held.close()


# --- quarantine


def spoil(shard: Shard, file: str, sql: str) -> None:
    """The writer's file turns into something we never write, in an epoch of its own."""
    path = shard._sources[file].path
    db = sqlite3.connect(path)
    db.execute(sql)
    db.commit()
    db.close()
    shard.restart(file)


@pytest.mark.parametrize(
    ("sql", "cause"),
    [
        ("PRAGMA application_id = 7", "foreign"),
        ("CREATE TRIGGER t AFTER INSERT ON row BEGIN SELECT 1; END", "schema"),
        ("CREATE VIEW v AS SELECT 1", "schema"),
        ("DELETE FROM meta", "stamps"),
    ],
)
def test_a_foreign_file_is_quarantined_refused_and_shown(
    tmp_path: Path, shard: Shard, sql: str, cause: str
) -> None:
    file = shard.create()
    spoil(shard, file, sql)
    shard.publish()
    with reader(tmp_path / "cache", shard.store) as node:
        for _ in range(2):
            with pytest.raises(IndexCorrupt):
                node.client.ensure(file, deadline_ms=10_000)
        assert node.counters["quarantined"] == 1  # the second one was refused without a download
        assert node.counters[f"quarantined_{cause}"] == 1
        assert stuck(node, "bad_file") == 1
        kept = list((tmp_path / "cache" / "quarantine").iterdir())
        assert [path.suffix for path in kept] == [f".{cause}"]
        assert node.worker.view(file) is None


def test_a_large_damaged_file_is_found_after_its_first_answer_and_then_before_it(
    tmp_path: Path, shard: Shard
) -> None:
    file = shard.create(3)
    state = bytearray(shard._sources[file].path.read_bytes())
    state[18:20] = b"\x02\x02"
    db = sqlite3.connect(shard._sources[file].path)
    (root,) = db.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'account'").fetchone()
    db.close()
    state[(root - 1) * 4_096 : root * 4_096] = b"\xff" * 4_096
    shard.delete_objects(file)
    shard.put_snapshot(file, bytes(state), 3)
    shard.publish()
    with reader(tmp_path / "cache", shard.store, check_inline_bytes=1) as node:
        assert node.client.ensure(file, 3, deadline_ms=10_000) == 3
        eventually(lambda: node.counters["quarantined_damage"] == 1, "the check finds it")
        eventually(lambda: stuck(node, "bad_file") == 1, "it is shown")
        with pytest.raises(IndexCorrupt):
            node.client.ensure(file, 3, deadline_ms=5_000)


def test_quarantine_is_bounded_by_count_and_bytes(tmp_path: Path) -> None:
    quarantine = Quarantine(tmp_path, Counters(), files_most=3, bytes_most=250)
    for i, size in enumerate((100, 100, 100, 10, 10, 300)):
        path = tmp_path / f"f{i}.db"
        path.write_bytes(bytes(size))
        os.utime(path, (i, i))
        quarantine.take(path, "damage")
        assert not path.exists()
        kept = list(quarantine.folder.iterdir())
        assert len(kept) <= 3
        assert sum(each.stat().st_size for each in kept) <= 250
    assert kept == []  # the last one alone was too large, and the oldest went first


# --- the canary


def test_a_canary_that_stops_is_noticed_by_our_own_clock(tmp_path: Path, shard: Shard) -> None:
    canary = canary_file("0")
    shard.create(file=canary)
    shard.registry = shard.create()
    shard.publish()
    with reader(tmp_path / "cache", shard.store, resident_tenants=1) as node:
        eventually(lambda: node.counters["canary_arrivals"] == 1, "it comes unasked")
        shard.commit(canary)
        shard.publish()
        eventually(lambda: node.counters["canary_arrivals"] == 2, "and again")
        assert node.counters["canary_interval_ms"] > 0
        eventually(lambda: node.worker.node_health().registry_resident, "the registry comes")
        assert node.worker.node_health().ready(60_000, 60_000)
        eventually(lambda: node.worker.node_health().canary_age_ms > 100, "it is silent")  # type: ignore[operator]
        shard.publish()  # heads go on: only the canary knows
        health = node.worker.node_health()
        assert health.reasons(60_000, 100) == ["no canary arrived for more than 100 ms"]
        assert node.counters["evictions"] == 0


def test_the_writer_bumps_its_canary_and_tells(tmp_path: Path) -> None:
    told: list[str] = []
    canary = Canary(tmp_path, "0", changed=told.append, interval_ms=5)
    canary.start()
    eventually(lambda: len(told) > 2, "it goes on")
    canary.stop()
    bumps = len(told)
    assert set(told) == {canary_file("0")}
    assert canary.bump() == bumps + 1
    assert Canary(tmp_path, "0", changed=told.append, interval_ms=5).bump() == bumps + 2
    assert canary_file("1") != canary_file("0")


def test_a_writer_without_its_lease_leaves_the_canary_alone(tmp_path: Path) -> None:
    told: list[str] = []
    asked: list[float] = []

    def may_write() -> bool:
        asked.append(time.monotonic())
        return False

    canary = Canary(tmp_path, "0", changed=told.append, interval_ms=1, may_write=may_write)
    canary.start()
    eventually(lambda: len(asked) > 3, "it asks")
    canary.stop()
    assert told == []
    assert not (tmp_path / "writer").exists()


# --- a worker's side


def test_warming_says_what_it_found(tmp_path: Path, shard: Shard) -> None:
    file = shard.create()
    shard.publish()
    with (
        reader(tmp_path / "cache", shard.store) as node,
        Replicas(tmp_path / "cache", Settings()) as replicas,
    ):
        cold = replicas.warm(file, pin_ms=1_000, wait_ms=10_000)
        assert (cold.resident, cold.temperature, cold.version) == (True, "cold", 1)
        assert cold.bytes == path_of(node, file).stat().st_size
        warm = replicas.warm(file, pin_ms=0, wait_ms=0)
        assert (warm.temperature, warm.activated_ms, warm.pinned_ms) == ("warm", 0, 0)
        health = replicas.health()
        assert health["follower"]["seeds"] == 1
        assert health["stuck"] == {}
