from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from service.errors import Unavailable
from service.index.document import Document, Operation, Upsert
from service.node.tenants import Tenants
from service.replica import FolderStore, LeaseGuard, Publisher, Tenure, names
from service.replica.keeper import lease_file
from service.replica.stamps import read_stamps
from service.settings import Settings
from service.tenancy.registry import Registry

TENURE = Tenure(3, "a/1")
SETTINGS = Settings()


class World:
    """A writer's tenants with a clock set by hand, which `ticks` moves at each look."""

    def __init__(self, data: Path) -> None:
        self.data = data
        self.ticks = 0.0
        self.now = 0.0
        lease_file(data).parent.mkdir()
        told = {"term": TENURE.term, "owner": TENURE.owner, "deadline_ms": 100.0}
        lease_file(data).write_bytes(orjson.dumps(told))
        publisher = Publisher(
            data,
            FolderStore(data / "store"),
            shard="0",
            registry=None,
            heads_interval_ms=50,
            heads_heartbeat_ms=2_000,
        )
        registry = Registry(data / "registry.db", b"secret" * 6)
        self.tenants = Tenants(
            data,
            registry=registry,
            publisher=publisher,
            guard=LeaseGuard(data, TENURE, clock_ms=self.clock),
            settings=SETTINGS,
        )
        self.file = self.tenants.create_tenant("birds").file

    def clock(self) -> float:
        self.now += self.ticks
        return self.now

    def version(self) -> int:
        return read_stamps(names.current_path(self.data, self.file)).version

    def apply(self, ref: str) -> int:
        return self.tenants.apply(
            self.file,
            [OPERATIONS[ref]],
            idempotency_key=ref,
            body_digest=ref.encode(),
            durability="local",
        ).version


OPERATIONS: dict[str, Operation] = {
    ref: Upsert(line=1, document=Document(kind="note", ref=ref, note=f"rail {ref}"))
    for ref in ("a", "b")
}


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    with made.tenants:
        yield made


def test_new_files_lie_in_an_epoch_of_this_ownership(world: World) -> None:
    assert names.current_path(world.data, world.file).name == "00003000.db"


def test_without_the_lease_a_batch_is_not_even_begun(world: World) -> None:
    assert world.apply("a") == 1
    world.now = 100.0
    with pytest.raises(Unavailable, match="lost its shard"):
        world.apply("b")
    assert world.version() == 1
    health = world.tenants.health()
    assert health["ready"] is False
    assert "lost its shard" in health["reasons"][0]


def test_a_batch_whose_lease_ran_out_on_the_way_is_not_acknowledged(world: World) -> None:
    world.now, world.ticks = 60.0, 30.0  # 90 before, 120 after
    with pytest.raises(Unavailable, match="lost its shard"):
        world.apply("a")
    assert world.version() == 1  # it stands here, and nobody was told so


def test_a_replayed_batch_is_not_acknowledged_either(world: World) -> None:
    world.apply("a")
    world.now, world.ticks = 60.0, 30.0
    with pytest.raises(Unavailable, match="lost its shard"):
        world.apply("a")


def test_no_tenant_is_made_without_the_lease(world: World) -> None:
    world.now = 100.0
    with pytest.raises(Unavailable, match="lost its shard"):
        world.tenants.create_tenant("bees")
    world.now = 0.0
    assert world.tenants.create_tenant("bees").name == "bees"
