import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from service.errors import (
    Conflict,
    Forbidden,
    IndexCorrupt,
    IndexTooNew,
    InvalidRequest,
    NotFound,
    Unauthorized,
    Unavailable,
)
from service.index.connection import APPLICATION_ID
from service.tenancy import keys
from service.tenancy.records import TenantState
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryBusy, RegistryView

SECRET = b"s" * 32


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def registry(tmp_path: Path, clock: Clock) -> Iterator[Registry]:
    with Registry(tmp_path / "registry.sqlite", SECRET, clock_ms=clock) as registry:
        yield registry


@pytest.fixture
def view(registry: Registry, clock: Clock) -> Iterator[RegistryView]:
    view = RegistryView(lambda: registry.path, SECRET, clock_ms=clock)
    yield view
    view.close()


def test_the_replicator_finds_version_and_time_in_meta(registry: Registry, clock: Clock) -> None:
    clock.now = 5_000_000
    before = registry.version
    registry.create_tenant("acme")
    connection = apsw.Connection(str(registry.path), flags=apsw.SQLITE_OPEN_READONLY)
    meta = dict(connection.execute("SELECT key, value FROM meta"))
    assert meta["version"] == before + 1 == registry.version
    assert meta["committed_at"] == 5_000_000
    assert connection.pragma("application_id") == APPLICATION_ID


def test_each_tenant_gets_an_unguessable_file_and_keeps_it_over_a_restart(
    registry: Registry,
) -> None:
    tenants = [registry.create_tenant(f"t{number}") for number in range(50)]
    files = {tenant.file for tenant in tenants}
    assert len(files) == 50
    assert all(len(file) == 26 and file == file.lower() and file.isalnum() for file in files)
    registry.close()
    with Registry(registry.path, SECRET) as again:
        assert again.tenants() == tenants
        assert again.tenant("t7").file == tenants[7].file


@pytest.mark.parametrize("name", ["", "Acme", "a/b", "..", "a" * 64, "-a", "a\n", "名"])
def test_a_name_that_could_confuse_is_refused_and_changes_nothing(
    registry: Registry, name: str
) -> None:
    before = registry.version
    with pytest.raises(InvalidRequest):
        registry.create_tenant(name)
    assert registry.version == before


def test_a_deleted_tenant_stays_deleted_and_its_name_is_never_given_again(
    registry: Registry,
) -> None:
    file = registry.create_tenant("acme").file
    assert registry.set_state("acme", TenantState.DELETED).file == file
    before = registry.version
    with pytest.raises(Conflict):
        registry.create_tenant("acme")
    with pytest.raises(Conflict):
        registry.set_state("acme", TenantState.ACTIVE)
    with pytest.raises(Conflict):
        registry.create_key("acme", ["search"])
    assert registry.version == before


def test_an_epoch_only_grows(registry: Registry) -> None:
    registry.create_tenant("acme")
    assert [registry.advance_epoch("acme").epoch for _ in range(3)] == [2, 3, 4]
    with pytest.raises(NotFound):
        registry.advance_epoch("nobody")


def test_a_key_opens_its_own_tenant_and_only_within_its_scopes(
    registry: Registry, view: RegistryView
) -> None:
    acme, other = registry.create_tenant("acme"), registry.create_tenant("other")
    made = registry.create_key("acme", ["search"], label="laptop")
    grant = view.authenticate(made.key.text)
    assert grant.tenant == acme != other
    grant.require("search")
    with pytest.raises(Forbidden, match="sync"):
        grant.require("sync")


def test_the_file_holds_no_key_only_a_hash_that_needs_the_secret(registry: Registry) -> None:
    registry.create_tenant("acme")
    made = registry.create_key("acme", ["sync"])
    registry.close()
    raw = b"".join(path.read_bytes() for path in registry.path.parent.iterdir())
    assert made.key.text.encode() not in raw
    assert made.key.text.split("_")[2].encode() not in raw
    stranger = RegistryView(lambda: registry.path, b"t" * 32)
    with pytest.raises(Unauthorized):
        stranger.authenticate(made.key.text)


def test_a_revoked_key_stops_at_once_and_the_others_go_on(
    registry: Registry, view: RegistryView
) -> None:
    registry.create_tenant("acme")
    old, new = (registry.create_key("acme", ["search"]) for _ in range(2))
    view.authenticate(old.key.text)
    registry.revoke_key(old.record.id)
    with pytest.raises(Unauthorized, match="revoked"):
        view.authenticate(old.key.text)
    assert view.authenticate(new.key.text).key_id == new.record.id
    assert [key.revoked_at is None for key in registry.keys("acme")] == [False, True]
    with pytest.raises(NotFound):
        registry.revoke_key(999)


def test_a_key_expires_on_the_dot_even_when_it_is_cached(
    registry: Registry, view: RegistryView, clock: Clock
) -> None:
    registry.create_tenant("acme")
    made = registry.create_key("acme", ["search"], expires_at=clock.now + 10)
    clock.now += 9
    view.authenticate(made.key.text)
    clock.now += 1
    with pytest.raises(Unauthorized, match="expired"):
        view.authenticate(made.key.text)


def test_a_suspended_tenants_keys_are_refused_until_it_is_active_again(
    registry: Registry, view: RegistryView
) -> None:
    registry.create_tenant("acme")
    made = registry.create_key("acme", ["search"])
    registry.set_state("acme", TenantState.SUSPENDED)
    with pytest.raises(Forbidden, match="suspended"):
        view.authenticate(made.key.text)
    registry.set_state("acme", TenantState.ACTIVE)
    view.authenticate(made.key.text)
    registry.set_state("acme", TenantState.DELETED)
    with pytest.raises(Unauthorized, match="deleted"):
        view.authenticate(made.key.text)


def test_an_unknown_key_starts_to_work_when_the_registry_learns_it(
    tmp_path: Path, registry: Registry, view: RegistryView
) -> None:
    """The answer "unknown" is cached too, and falls with the next version."""
    registry.create_tenant("acme")
    stranger = Registry(tmp_path / "elsewhere.sqlite", SECRET)
    stranger.create_tenant("acme")
    text = stranger.create_key("acme", ["search"]).key.text
    for _ in range(2):
        with pytest.raises(Unauthorized):
            view.authenticate(text)
    stranger.close()
    path = {"now": registry.path}
    moving = RegistryView(lambda: path["now"], SECRET)
    with pytest.raises(Unauthorized):
        moving.authenticate(text)
    path["now"] = stranger.path
    assert moving.authenticate(text).key_id == 1
    moving.close()


def test_a_replica_replaced_under_the_same_name_is_noticed(
    tmp_path: Path, registry: Registry
) -> None:
    registry.create_tenant("acme")
    made = registry.create_key("acme", ["search"])
    copy, fresh = tmp_path / "copy.sqlite", tmp_path / "fresh.sqlite"
    with apsw.Connection(str(copy)) as target:
        _copy(registry.path, target)
    view = RegistryView(lambda: copy, SECRET)
    view.authenticate(made.key.text)
    registry.revoke_key(made.record.id)
    with apsw.Connection(str(fresh)) as target:
        _copy(registry.path, target)
    fresh.replace(copy)
    with pytest.raises(Unauthorized):
        view.authenticate(made.key.text)
    view.close()


def _copy(path: Path, target: apsw.Connection) -> None:
    source = apsw.Connection(str(path))
    with target.backup("main", source, "main") as backup:
        backup.step()
    source.close()


def test_a_node_without_a_registry_asks_to_retry(tmp_path: Path) -> None:
    view = RegistryView(lambda: tmp_path / "none.sqlite", SECRET)
    with pytest.raises(Unavailable):
        view.authenticate(keys.mint(["search"]).text)


def test_a_malformed_key_is_refused_without_touching_the_file(tmp_path: Path) -> None:
    view = RegistryView(lambda: tmp_path / "none.sqlite", SECRET)
    with pytest.raises(Unauthorized):
        view.authenticate("ml_search_" + "0" * 33)


def test_while_a_change_is_taken_in_an_impatient_caller_is_told_and_a_patient_one_waits(
    tmp_path: Path, registry: Registry
) -> None:
    registry.create_tenant("acme")
    made = registry.create_key("acme", ["search"])
    replica = tmp_path / "replica.sqlite"
    with apsw.Connection(str(replica)) as target:
        _copy(registry.path, target)
    with closing(apsw.Connection(str(replica))) as target:
        target.pragma("journal_mode", "delete")  # a replica is not in WAL mode
    view = RegistryView(lambda: replica, SECRET)
    view.authenticate(made.key.text)
    applier = apsw.Connection(str(replica))
    applier.execute("BEGIN EXCLUSIVE")
    with pytest.raises(RegistryBusy):
        view.authenticate(made.key.text, wait_ms=0)
    release = threading.Timer(0.1, applier.execute, ["ROLLBACK"])
    release.start()
    assert view.authenticate(made.key.text).key_id == made.record.id
    release.join()
    applier.close()
    view.close()


def test_many_threads_share_one_view(registry: Registry, view: RegistryView) -> None:
    registry.create_tenant("acme")
    made = [registry.create_key("acme", ["search"]) for _ in range(20)]
    wrong = []

    def ask(number: int) -> None:
        for offset in range(40):
            key = made[(number + offset) % len(made)]
            if view.authenticate(key.key.text).key_id != key.record.id:
                wrong.append(key.record.id)

    threads = [threading.Thread(target=ask, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for number in range(20):
        registry.create_tenant(f"t{number}")
    for thread in threads:
        thread.join()
    assert wrong == []


def test_only_an_operators_key_has_no_tenant(registry: Registry, view: RegistryView) -> None:
    made = registry.create_key(None, ["operator"])
    assert view.authenticate(made.key.text).tenant is None
    assert [key.id for key in registry.keys(None)] == [made.record.id]
    registry.create_tenant("acme")
    for tenant, scopes in (
        (None, ["search"]),
        ("acme", ["operator"]),
        (None, ["operator", "sync"]),
    ):
        with pytest.raises(InvalidRequest):
            registry.create_key(tenant, scopes)


def test_a_bad_label_or_expiry_is_refused(registry: Registry, clock: Clock) -> None:
    registry.create_tenant("acme")
    with pytest.raises(InvalidRequest, match="expired"):
        registry.create_key("acme", ["search"], expires_at=clock.now)
    for label in ("a" * 101, "two\nlines"):
        with pytest.raises(InvalidRequest, match="label"):
            registry.create_key("acme", ["search"], label=label)
    with pytest.raises(NotFound):
        registry.create_key("nobody", ["search"])


def test_a_tenant_cannot_pile_up_keys(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.tenancy.registry.TENANT_KEYS", 2)
    registry.create_tenant("acme")
    first = registry.create_key("acme", ["search"])
    registry.create_key("acme", ["search"])
    with pytest.raises(Conflict, match="2 working keys"):
        registry.create_key("acme", ["search"])
    registry.revoke_key(first.record.id)
    registry.create_key("acme", ["search"])


def test_files_of_others_and_of_later_releases_are_refused(
    tmp_path: Path, registry: Registry
) -> None:
    index = tmp_path / "index.sqlite"
    foreign = apsw.Connection(str(index))
    foreign.pragma("application_id", APPLICATION_ID)
    foreign.execute("CREATE TABLE meta(key, value)")
    foreign.close()
    with pytest.raises(IndexCorrupt):
        Registry(index, SECRET)
    later = tmp_path / "later.sqlite"
    registry.close()
    shutil.copy(registry.path, later)
    for suffix in ("-wal", "-shm"):
        if (aside := registry.path.with_name(registry.path.name + suffix)).exists():
            shutil.copy(aside, later.with_name(later.name + suffix))
    connection = apsw.Connection(str(later))
    connection.execute("UPDATE meta SET value = 3 WHERE key = 'schema'")
    connection.close()
    with pytest.raises(IndexTooNew):
        Registry(later, SECRET)
    with pytest.raises(IndexTooNew):
        RegistryView(lambda: later, SECRET).authenticate(keys.mint(["search"]).text)


def test_a_replica_that_is_not_whole_is_not_believed(registry: Registry) -> None:
    registry.create_tenant("acme")
    made = registry.create_key("acme", ["search"])
    whole = {registry.path: True}
    view = RegistryView(lambda: registry.path, SECRET, clean=lambda path: whole[path])
    assert view.authenticate(made.key.text).key_id == made.record.id
    whole[registry.path] = False
    with pytest.raises(Unavailable):
        view.authenticate(made.key.text)
    whole[registry.path] = True
    assert view.authenticate(made.key.text).key_id == made.record.id
    view.close()
