"""Which shard a tenant is on: the default, moves, and who may still read the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.errors import Conflict, InvalidRequest, NotFound
from service.tenancy.placements import Placements, check_shard, place
from service.tenancy.records import TenantState
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView

SECRET = b"s" * 32


def schema(registry: Registry) -> int:
    with registry.reading() as connection:
        return int(connection.execute("SELECT value FROM meta WHERE key = 'schema'").get)


def test_tenants_are_on_main_until_one_is_placed_and_then_earlier_releases_refuse(
    tmp_path: Path,
) -> None:
    with Registry(tmp_path / "r.db", SECRET) as registry:
        registry.create_tenant("gulls")
        assert Placements(registry).find("gulls").shard == "main"
        assert schema(registry) == 1
        registry.create_tenant("terns", also=lambda c, made: place(c, made, "east", None, None))
        assert schema(registry) == 2
        view = RegistryView(lambda: registry.path, SECRET)
        _, placed = view.placements()
        assert [(each.tenant.name, each.shard) for each in placed] == [
            ("gulls", "main"),
            ("terns", "east"),
        ]
        assert view.placement("a" * 26) is None
        view.close()


def test_a_move_begins_once_and_arrives_once(tmp_path: Path) -> None:
    with Registry(tmp_path / "r.db", SECRET) as registry:
        registry.create_tenant("gulls")
        placements = Placements(registry)
        begun = placements.begin("gulls", "east")
        assert (begun.shard, begun.moving_to) == ("main", "east")
        version = registry.version
        assert placements.begin("gulls", "east") == begun
        assert registry.version == version
        with pytest.raises(Conflict, match="is moving to east"):
            placements.begin("gulls", "west")
        placements.arrive(begun)
        arrived = placements.find("gulls")
        assert (arrived.shard, arrived.moving_to, arrived.since) == ("east", None, None)
        assert placements.begin("gulls", "east") == arrived
        back = placements.begin("gulls", "main")
        placements.arrive(begun)  # a late word of the first move changes nothing
        assert placements.find("gulls") == back


def test_only_a_tenant_that_is_there_moves(tmp_path: Path) -> None:
    with Registry(tmp_path / "r.db", SECRET) as registry:
        placements = Placements(registry)
        with pytest.raises(NotFound):
            placements.begin("gulls", "east")
        registry.create_tenant("gulls")
        registry.set_state("gulls", TenantState.DELETED)
        with pytest.raises(Conflict, match="deleted"):
            placements.begin("gulls", "east")


@pytest.mark.parametrize("name", ["", "East", "../x", "a/b", "-a", "a" * 33])
def test_names_that_are_no_shard_are_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_shard(name)
