from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from service.errors import Unavailable
from service.index.connection import open_reader
from service.settings import Settings
from tests.replica.shard_world import Shard, path_of, stuck
from tests.replica.world import eventually, reader, whole_version

MIB = 1024 * 1024

pytestmark = pytest.mark.usefixtures("quick_retries")


def descriptors(needle: str = "") -> list[str]:
    """What this process has open."""
    found = []
    for entry in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(entry.readlink()))
    return [target for target in found if needle in target]


# --- eviction


def test_eviction_leaves_a_running_query_its_file_and_the_disk_gets_it_back(
    tmp_path: Path, shard: Shard
) -> None:
    first, second = shard.create(5), shard.create()
    shard.publish()
    with reader(tmp_path / "cache", shard.store, resident_tenants=1) as node:
        node.client.ensure(first, deadline_ms=10_000)
        path = path_of(node, first)
        query = open_reader(path)
        with query:
            assert whole_version(query) == 5
            node.client.ensure(second, deadline_ms=10_000)
            eventually(lambda: not path.exists(), "it is evicted")
            assert whole_version(query) == 5
            assert descriptors(path.name) == [f"{path} (deleted)"]
        query.close()
        assert descriptors(path.name) == []
        assert node.worker.view(first) is None


def test_a_pinned_tenant_stays_within_its_time_and_bytes(tmp_path: Path, shard: Shard) -> None:
    files = [shard.create() for _ in range(3)]
    shard.publish()
    with reader(tmp_path / "cache", shard.store, resident_tenants=1, pinned_bytes=200_000) as node:
        warmed = node.client.warm(files[0], pin_ms=10**9, deadline_ms=10_000)
        assert (warmed.version, warmed.pinned_ms) == (1, Settings().pin_ms)
        node.client.ensure(files[1], deadline_ms=10_000)
        eventually(lambda: node.counters["evictions"] == 1, "the other one goes")
        assert node.version(files[0]) == 1
    with reader(tmp_path / "cache", shard.store, resident_tenants=1, pinned_bytes=10) as node:
        warmed = node.client.warm(files[2], pin_ms=60_000, deadline_ms=10_000)
        assert warmed.pinned_ms == 0


def test_descriptors_do_not_grow_with_tenants(tmp_path: Path, shard: Shard) -> None:
    files = [shard.create() for _ in range(30)]
    shard.publish()
    with reader(tmp_path / "cache", shard.store) as node:
        for file in files:
            node.client.ensure(file, deadline_ms=10_000)
        eventually(lambda: descriptors("cache/files/") == [], "the follower holds none")
        assert node.version(files[0]) == 1  # the worker's own connection is open now
        before = len(descriptors())
        for file in files:
            shard.commit(file)
        shard.publish()
        for file in files:
            node.reaches(file, 2)
        eventually(lambda: len(descriptors()) <= before, "nor after an apply")


# --- a full disk


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file of this process grows beyond this: what a full disk does, and only to large files."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_stops_seeds_and_growth_and_nothing_else(tmp_path: Path, shard: Shard) -> None:
    small, growing = shard.create(), shard.create()
    large = shard.create(row_bytes=2 * MIB)
    shard.publish()
    with reader(tmp_path / "cache", shard.store) as node:
        for file in (small, growing):
            node.client.ensure(file, deadline_ms=10_000)
        pinned = node.client.warm(small, pin_ms=60_000, deadline_ms=1_000)
        assert pinned.pinned_ms
        node.client.warm(growing, pin_ms=60_000, deadline_ms=1_000)
        shard.commit(growing, row_bytes=2 * MIB)
        shard.commit(small)
        with file_size_limit(MIB):
            with pytest.raises(Unavailable, match="disk is full"):
                node.client.ensure(large, deadline_ms=10_000)
            shard.publish()
            node.reaches(small, 2)
            eventually(lambda: stuck(node, "disk_full") > 0, "it is shown")
            eventually(lambda: node.counters["disk_full"] > 2, "it is tried")
            db = open_reader(path_of(node, growing))
            with db:
                assert whole_version(db) == 1  # whole, and as it was
            db.close()
            assert list((tmp_path / "cache" / "files").glob("*.tmp")) == []
        node.reaches(growing, 2)
        assert node.counters["reseeds"] == 0  # it grew in place once there was room
        node.client.ensure(large, deadline_ms=10_000)


def test_a_full_disk_makes_idle_tenants_go(tmp_path: Path, shard: Shard) -> None:
    idle = shard.create()
    large = shard.create(row_bytes=2 * MIB)
    shard.publish()
    with reader(tmp_path / "cache", shard.store) as node:
        node.client.ensure(idle, deadline_ms=10_000)
        with file_size_limit(MIB), pytest.raises(Unavailable):
            node.client.ensure(large, deadline_ms=10_000)
        assert node.counters["evictions"] == 1
        assert node.worker.view(idle) is None
