from __future__ import annotations

import time
from pathlib import Path

import pytest

from service.errors import NotFound
from service.replica import FolderStore
from service.replica.names import heads_key
from service.replica.store import Absent, Stored
from tests.replica.shard_world import Shard, path_of, unused_since_1970
from tests.replica.world import Reader, eventually, reader


class CountingStore(FolderStore):
    """Counts looks at heads."""

    looks = 0

    def get(self, key: str, *, known_etag: str | None = None) -> Stored | Absent:
        self.looks += 1
        return super().get(key, known_etag=known_etag)


@pytest.fixture
def store(tmp_path: Path) -> CountingStore:
    return CountingStore(tmp_path / "store")


def test_shards_come_and_go_without_a_restart(tmp_path: Path, store: CountingStore) -> None:
    one, two = Shard(tmp_path, store, "one"), Shard(tmp_path, store, "two")
    first = one.create()
    one.publish()
    limits = {"shards_interval_ms": 50, "shard_gone_ms": 300, "idle_poll_ms": 50}
    with reader(tmp_path / "cache", store, (), **limits) as node:
        node.client.ensure(first, deadline_ms=10_000)
        second = two.create()
        two.publish()
        node.client.ensure(second, deadline_ms=10_000)
        path = path_of(node, second)
        assert [shard.name for shard in node.worker.node_health().shards] == ["one", "two"]
        store.delete(heads_key("two"))
        eventually(lambda: node.counters["gone_shards"] == 1, "it is dropped")
        eventually(lambda: not path.exists(), "and what it announced")
        with pytest.raises(NotFound):
            node.client.ensure(second, deadline_ms=10_000)
        assert node.version(first) == 1
        assert [shard.name for shard in node.worker.node_health().shards] == ["one"]
        two.publish()
        node.client.ensure(second, deadline_ms=10_000)


def looks_on(node: Reader, looks: int) -> None:
    seen = node.counters["polls"]
    eventually(lambda: node.counters["polls"] > seen + looks, "it looks on")


def test_a_tenant_that_moves_is_never_missing(tmp_path: Path, store: CountingStore) -> None:
    one, two = Shard(tmp_path, store, "one"), Shard(tmp_path, store, "two")
    file, other = one.create(), two.create()
    one.publish()
    two.publish()
    limits = {"shards_interval_ms": 50, "idle_poll_ms": 50}
    with reader(tmp_path / "cache", store, (), **limits) as node:
        node.client.ensure(file, deadline_ms=10_000)
        node.client.ensure(other, deadline_ms=10_000)
        two._sources[file] = one._sources[file]
        one.restart(file)
        two.heads[file] = one.heads[file]
        one.heads[file] = one.heads[file].__class__(1, 1, 1, 0)  # the old owner is behind
        two.publish()
        one.publish()
        eventually(lambda: getattr(node.worker.view(file), "epoch", 0) == 2, "the new owner's")
        for _ in range(5):
            one.publish()
            looks_on(node, 4)
            view = node.worker.view(file)
            assert view is not None
            assert view.epoch == 2
        one.forget(file)
        one.publish()
        looks_on(node, 10)
        assert node.version(file) == 1
        assert node.counters["dropped"] == 0


def test_looks_per_second_are_bounded_even_while_somebody_waits(
    tmp_path: Path, store: CountingStore
) -> None:
    shards = [Shard(tmp_path, store, f"s{i}") for i in range(8)]
    for shard in shards:
        shard.create()
        shard.publish()
    with reader(tmp_path / "cache", store, (), polls_per_s=20, poll_interval_ms=10) as node:
        began, looks = time.monotonic(), store.looks
        with pytest.raises(NotFound):
            node.client.ensure("a" * 26, 0, deadline_ms=5_000)
        eventually(lambda: store.looks > looks + 30, "it goes on")
        seconds = time.monotonic() - began
        assert store.looks - looks <= 20 * seconds + 20 * 0.2 + 1


def test_an_idle_tenant_is_left_behind_honestly_and_brought_up_when_asked(
    tmp_path: Path, store: CountingStore
) -> None:
    shard = Shard(tmp_path, store, "0")
    idle, hot = shard.create(), shard.create()
    shard.publish()
    with reader(tmp_path / "cache", store) as node:
        for file in (idle, hot):
            node.client.ensure(file, deadline_ms=10_000)
        unused_since_1970(node, idle)
        for file in (idle, hot):
            shard.commit(file)
        shard.publish()
        node.reaches(hot, 2)
        assert node.version(idle) == 1
        view = node.worker.view(idle)
        assert view is not None
        assert view.head_version == 2
        aged = view.age_ms
        eventually(lambda: node.worker.view(idle).age_ms > aged, "it ages")  # type: ignore[union-attr]
        assert node.client.ensure(idle, 2, deadline_ms=10_000) == 2
        unused_since_1970(node, idle)
        shard.commit(idle)
        shard.publish()
        eventually(lambda: node.worker.view(idle).head_version == 3, "it is heard of")  # type: ignore[union-attr]
        assert node.version(idle) == 2
        assert node.client.ensure(idle, deadline_ms=10_000, max_age_ms=5_000) >= 2
        shard.publish()
