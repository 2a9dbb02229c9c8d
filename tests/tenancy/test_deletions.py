"""What the registry remembers of a deletion."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from service.errors import Conflict, NotFound
from service.tenancy.deletions import Deletions
from service.tenancy.records import TenantState
from service.tenancy.registry import Registry

SECRET = b"s" * 32


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry(tmp_path / "registry.sqlite", SECRET) as registry:
        yield registry


def test_a_deletion_is_pending_until_it_has_its_receipt(registry: Registry) -> None:
    deletions = Deletions(registry)
    made = registry.create_tenant("acme")
    registry.create_tenant("other")
    assert deletions.find("acme") is None
    begun = deletions.begin("acme", {"documents": 3})
    assert begun.tenant.state is TenantState.DELETED
    assert begun.tenant.file == made.file
    assert deletions.pending() == [begun]
    assert deletions.begin("acme", {"documents": 0}) == begun
    deletions.note("acme", {"documents": 3, "objects_deleted": 5})
    (pending,) = deletions.pending()
    assert pending.progress == {"documents": 3, "objects_deleted": 5}
    deletions.finish("acme", {"objects_remaining": 0})
    assert deletions.pending() == []
    found = deletions.find("acme")
    assert found is not None
    assert found.receipt == {"objects_remaining": 0}
    assert deletions.all() == [found]
    with pytest.raises(NotFound):
        deletions.begin("nobody", {})


def test_it_outlives_the_process_and_the_name_stays_taken(tmp_path: Path) -> None:
    path = tmp_path / "registry.sqlite"
    with Registry(path, SECRET) as registry:
        registry.create_tenant("acme")
        Deletions(registry).begin("acme", {"documents": 3})
    with Registry(path, SECRET) as registry:
        (pending,) = Deletions(registry).pending()
        assert pending.tenant.name == "acme"
        with pytest.raises(Conflict):
            registry.create_tenant("acme")
        with pytest.raises(Conflict):
            registry.set_state("acme", TenantState.ACTIVE)


def test_every_step_is_a_version_that_replication_announces(registry: Registry) -> None:
    deletions = Deletions(registry)
    registry.create_tenant("acme")
    seen = [registry.version]
    deletions.begin("acme", {})
    seen.append(registry.version)
    deletions.begin("acme", {})
    seen.append(registry.version)
    deletions.finish("acme", {})
    seen.append(registry.version)
    assert [version - seen[0] for version in seen] == [0, 1, 1, 2]


def test_a_registry_from_before_there_were_receipts_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "registry.sqlite"
    Registry(path, SECRET).close()
    connection = apsw.Connection(str(path))
    connection.execute("DROP TABLE deletions")
    connection.close()
    with Registry(path, SECRET) as registry:
        registry.create_tenant("acme")
        assert Deletions(registry).begin("acme", {}).receipt is None
