"""Tenants suspended, deleted and restored on a real writer."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.errors import (
    Conflict,
    InvalidRequest,
    NotFound,
    ReplicationError,
    TenantSuspended,
    Unauthorized,
)
from service.index.connection import open_reader
from service.node import erasing
from service.replica import FolderStore, current_path, heads, latest_epoch
from service.replica.store import Stored
from service.replica.stores import open_store
from service.settings import Settings
from service.tenancy.deletions import Deletions
from service.tenancy.registry import now_ms
from service.tenancy.view import RegistryView
from tests.node.world import SECRET, WriterNode, later, titles
from tests.replica.world import eventually, reader

_fresh = itertools.count()


class FailingStore(FolderStore):
    """A folder whose deletions fail half-way, so often."""

    failures = 0

    def delete_prefix(self, prefix: str) -> int:
        if self.failures:
            self.failures -= 1
            keys = sorted(item.key for item in self.list(prefix))
            for key in keys[: len(keys) // 2]:
                self.delete(key)
            raise ReplicationError("the store is down")
        return super().delete_prefix(prefix)


@pytest.fixture
def node(tmp_path: Path) -> Iterator[WriterNode]:
    node = WriterNode(tmp_path)
    yield node
    node.stop()


@pytest.fixture(params=["folder", "s3"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[WriterNode]:
    """A writer node with a folder as its store, and one with a real S3-compatible server."""
    store = None
    if request.param == "s3":
        url = request.getfixturevalue("s3").url.replace("/fleet?", f"/life-{next(_fresh)}?")
        store = open_store(url, Settings())
    node = WriterNode(tmp_path, store)
    yield node
    node.stop()


def files_named(folder: Path, file: str) -> list[Path]:
    return [path for path in folder.rglob("*") if file in str(path) and path.is_file()]


def test_a_deleted_tenant_leaves_nothing_but_its_receipt(
    anywhere: WriterNode, tmp_path: Path
) -> None:
    node = anywhere
    tenant, other = node.create("gone"), node.create("other")
    key = node.registry.create_key("gone", ["search"]).key.text
    node.write(tenant, "a first", "b second")
    node.write(other, "c third")
    with reader(tmp_path / "cache", node.store) as warm:
        warm.client.ensure(tenant.file, 1, deadline_ms=10_000)
        warm.reaches(node.registry_file, node.registry.version)
        known = warm.worker.view(node.registry_file)
        assert known is not None
        view = RegistryView(lambda: known.path, SECRET)
        assert view.authenticate(key).tenant == tenant

        found = node.lifecycle.delete("gone")

        assert found.deletion is not None
        receipt = found.deletion.receipt
        assert receipt is not None
        assert receipt["tenant"] == "gone"
        assert receipt["file"] == tenant.file
        assert receipt["documents"] == 2
        assert receipt["epochs"] == [1]
        assert receipt["objects_deleted"] >= 2
        assert receipt["bytes_deleted"] > 0
        assert receipt["objects_remaining"] == 0
        assert receipt["local_files_removed"] >= 1
        assert receipt["announced"] is True
        assert receipt["attempts"] == 1
        assert node.objects(tenant) == []
        assert files_named(node.data, tenant.file) == []
        eventually(lambda: warm.version(tenant.file) < 0, "the reader drops it")
        eventually(lambda: not files_named(warm.cache, tenant.file), "nothing is on its disk")
        eventually(lambda: refused(view, key), "the reader refuses the key")
        with pytest.raises(NotFound):
            warm.client.ensure(tenant.file, deadline_ms=5_000)
        view.close()
    assert node.titles(other) == ["c third"]
    assert node.lifecycle.delete("gone").deletion == found.deletion
    with pytest.raises(NotFound):
        node.write(tenant, "d late")
    with pytest.raises(Conflict):
        node.tenants.create_tenant("gone")


def refused(view: RegistryView, key: str) -> bool:
    try:
        view.authenticate(key)
    except Unauthorized:
        return True
    return False


def test_a_deletion_goes_on_after_the_store_was_down_and_after_a_restart(tmp_path: Path) -> None:
    store = FailingStore(tmp_path / "store")
    node = WriterNode(tmp_path, store, erase_wait_ms=100)
    tenant = node.create("gone")
    node.write(tenant, "a first")
    store.failures = 1_000
    told = node.lifecycle.delete("gone")
    assert told.deletion is not None
    assert told.deletion.receipt is None
    eventually(
        lambda: node.lifecycle.tenant("gone").trouble == "the store is down",
        "it says what is wrong",
    )
    node.stop()
    assert node.objects(tenant)

    store.failures = 0
    node.start()
    try:
        eventually(
            lambda: (
                (found := node.lifecycle.tenant("gone").deletion) is not None
                and found.receipt is not None
            ),
            "the deletion is done",
        )
        done = node.lifecycle.tenant("gone").deletion
        assert done is not None
        assert done.receipt is not None
        assert done.receipt["attempts"] >= 2
        assert done.receipt["documents"] == 1
        assert node.objects(tenant) == []
        assert files_named(node.data, tenant.file) == []
        assert tenant.file not in _announced(node)
    finally:
        node.stop()


def _announced(node: WriterNode) -> dict[str, object]:
    stored = node.store.get("heads/0.json")
    assert isinstance(stored, Stored)
    return dict(heads.decode(stored.body).tenants)


@pytest.mark.parametrize("step", ["let_go", "erase_local", "erase_objects", "finish"])
def test_a_writer_that_dies_at_any_step_of_a_deletion_goes_on_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    reached = threading.Event()

    def dies(*_: object, **__: object) -> None:
        reached.set()
        raise ReplicationError("here it dies")

    node = WriterNode(tmp_path, erase_wait_ms=0)
    tenant = node.create("gone")
    node.write(tenant, "a first")
    monkeypatch.setattr(Deletions if step == "finish" else erasing, step, dies)
    node.lifecycle.delete("gone")
    assert reached.wait(20)
    node.stop()
    monkeypatch.undo()

    node.start()
    try:
        eventually(lambda: receipt_of(node, "gone") is not None, "the deletion is done")
        assert node.objects(tenant) == []
        assert files_named(node.data, tenant.file) == []
        assert tenant.file not in _announced(node)
    finally:
        node.stop()


def receipt_of(node: WriterNode, name: str) -> object:
    found = node.lifecycle.tenant(name).deletion
    return None if found is None else found.receipt


def test_a_suspended_tenant_keeps_everything(node: WriterNode) -> None:
    tenant = node.create("acme")
    key = node.registry.create_key("acme", ["search"]).key.text
    node.write(tenant, "a first")
    view = node.view()
    node.lifecycle.suspend("acme")
    node.lifecycle.suspend("acme")
    with pytest.raises(TenantSuspended):
        view.authenticate(key)
    node.lifecycle.resume("acme")
    assert view.authenticate(key).tenant == tenant
    assert node.titles(tenant) == ["a first"]
    view.close()


def test_each_earlier_moment_is_restored_exactly_as_a_new_version(
    anywhere: WriterNode, tmp_path: Path
) -> None:
    node = anywhere
    tenant = node.create("acme")
    empty = later()
    moments = []
    for title in ("a first", "b second", "a changed"):
        node.write(tenant, title)
        moments.append(later())
    states = [["a first"], ["a first", "b second"], ["a changed", "b second"]]
    version, epoch = 3, latest_epoch(node.data, tenant.file) or 0
    with reader(tmp_path / "cache", node.store) as follower:
        follower.client.ensure(tenant.file, 3, deadline_ms=10_000)
        for at, state in [*zip(moments, states, strict=True), (empty, []), (moments[1], states[1])]:
            would = node.lifecycle.restore("acme", at, dry_run=True)
            assert (would.from_version, would.version) == (version, version + 1)
            assert would.documents == len(state)
            assert latest_epoch(node.data, tenant.file) == epoch

            done = node.lifecycle.restore("acme", at, dry_run=False)
            assert done.announced
            assert (done.from_version, done.version) == (version, version + 1)
            assert done.restored_to == would.restored_to <= at
            assert node.titles(tenant) == state
            version, epoch = done.version, epoch + 1
            assert latest_epoch(node.data, tenant.file) == epoch
            assert titles(follower.reaches(tenant.file, version)) == state
    assert node.write(tenant, "c third").version == version + 1
    assert node.titles(tenant) == ["a first", "b second", "c third"]
    assert not list((node.data / "writer" / "drafts").iterdir())


def test_what_lies_outside_the_history_is_refused_by_name(node: WriterNode) -> None:
    tenant = node.create("acme")
    node.write(tenant, "a first")
    with pytest.raises(NotFound, match=f"begins at {tenant.created_at}"):
        node.lifecycle.restore("acme", tenant.created_at - 1, dry_run=False)
    with pytest.raises(InvalidRequest, match="still to come"):
        node.lifecycle.restore("acme", now_ms() + 60_000, dry_run=False)
    with pytest.raises(NotFound):
        node.lifecycle.restore("nobody", 1, dry_run=False)
    node.lifecycle.delete("acme")
    with pytest.raises(Conflict):
        node.lifecycle.restore("acme", later(), dry_run=False)


def test_batches_during_a_restore_end_up_before_it_or_on_top_of_it(node: WriterNode) -> None:
    tenant = node.create("acme")
    node.write(tenant, "start it")
    at = later()
    ending = threading.Event()
    acknowledged: list[tuple[int, str]] = []

    def write() -> None:
        number = 0
        while not ending.is_set():
            number += 1
            title = f"n{number:05d} text"
            acknowledged.append((node.write(tenant, title, durable=False).version, title))

    seen: list[int] = []

    def watch() -> None:
        while not ending.is_set():
            with node.tenants.open(
                tenant.file, min_version=None, max_staleness_ms=None, deadline_ms=0
            ) as opened:
                seen.append(opened.reader.version)

    threads = [threading.Thread(target=each) for each in (write, watch)]
    for thread in threads:
        thread.start()
    eventually(lambda: len(acknowledged) >= 20, "batches run")
    done = node.lifecycle.restore("acme", at, dry_run=False)
    before = len(acknowledged)
    eventually(lambda: len(acknowledged) >= before + 20, "batches go on")
    ending.set()
    for thread in threads:
        thread.join()
    assert seen == sorted(seen), "no query ever saw a version go back"
    assert done.version <= seen[-1]
    versions = [version for version, _ in acknowledged]
    assert versions == sorted(set(versions))
    assert done.version not in versions
    assert done.from_version in versions
    on_top = [title for version, title in acknowledged if version > done.version]
    assert node.titles(tenant) == sorted(["start it", *on_top])
    connection = open_reader(current_path(node.data, tenant.file))
    assert connection.execute("PRAGMA quick_check").get == "ok"
    connection.close()
