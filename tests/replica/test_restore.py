from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from service.errors import ReplicationError, SetupError
from service.replica import FolderStore, Restored, lock_writer, names, prepare
from service.replica.fetch import listed
from service.replica.stamps import read_stamps
from tests.replica.world import Writer, digest, eventually, reader


def test_a_lost_file_is_rebuilt_under_the_next_epoch(tmp_path: Path) -> None:
    first = Writer(tmp_path).start()
    file = first.create(batches=7)
    kept = first.create(batches=2)
    first.replicated(file)
    first.replicated(kept)
    contents = digest(first.path(file))
    first.stop()
    shutil.rmtree(first.path(file).parent)

    with reader(tmp_path / "cache", first.store) as node:
        node.client.ensure(file, 7, deadline_ms=10_000)
        second = Writer(tmp_path)
        second.versions = first.versions
        second.start()
        assert second.path(file).name == "00000002.db"
        assert second.path(kept).name == "00000001.db"
        assert digest(second.path(file)) == contents
        assert second.commit(file) == 8
        second.replicated(file)
        assert second.heads().tenants[file].epoch == 2
        path = node.reaches(file, 8)
        assert digest(path) == digest(second.path(file))
        second.stop()


def test_a_file_older_than_what_was_announced_is_replaced(tmp_path: Path) -> None:
    """As when somebody put last week's backup back."""
    first = Writer(tmp_path).start()
    file = first.create(batches=2)
    first.replicated(file)
    first.connections.pop(file).close()
    path = first.path(file)
    backup = tmp_path / "backup"
    shutil.copytree(path.parent, backup)
    for _ in range(3):
        first.commit(file)
    first.replicated(file)
    contents = digest(path)
    first.stop()
    shutil.rmtree(path.parent)
    shutil.copytree(backup, path.parent)

    assert prepare(first.data, first.store, shard="0") == [Restored(file, 1, 2, 5)]
    assert digest(first.path(file)) == contents
    assert not path.exists()  # Litestream would go on replicating it
    (aside,) = (first.data / "writer" / "set-aside").iterdir()
    assert read_stamps(aside / path.name).version == 2
    assert prepare(first.data, first.store, shard="0") == []


def test_a_file_that_is_no_database_any_more_is_replaced(tmp_path: Path) -> None:
    first = Writer(tmp_path).start()
    file = first.create(batches=3)
    first.replicated(file)
    first.stop()
    path = first.path(file)
    for part in path.parent.iterdir():
        part.unlink()
    path.write_bytes(b"not a database at all" * 1_000)
    assert prepare(first.data, first.store, shard="0") == [Restored(file, 1, 2, 3)]
    assert read_stamps(first.path(file)).version == 3


def test_a_writer_does_not_start_when_the_store_lost_what_it_announced(tmp_path: Path) -> None:
    first = Writer(tmp_path).start()
    file = first.create(batches=3)
    first.replicated(file)
    first.stop()
    shutil.rmtree(first.path(file).parent)
    for name in listed(first.store, file, 1):
        first.store.delete(name.key)
    with pytest.raises(ReplicationError, match="cannot rebuild"):
        prepare(first.data, first.store, shard="0")
    assert names.latest_epoch(first.data, file) is None  # no fresh, empty file either
    assert list(first.data.glob("writer/tenants/*/.*")) == []


def test_a_first_start_has_nothing_to_restore(tmp_path: Path) -> None:
    assert prepare(tmp_path / "data", FolderStore(tmp_path / "store"), shard="0") == []


def test_two_writers_never_share_a_data_folder(tmp_path: Path) -> None:
    with lock_writer(tmp_path):
        with pytest.raises(SetupError) as caught:
            lock_writer(tmp_path)
        assert caught.value.hint


def test_commits_that_were_not_announced_survive_a_restart(tmp_path: Path) -> None:
    first = Writer(tmp_path).start()
    file = first.create(batches=2)
    first.replicated(file)
    first.publisher.stop(2_000)
    first.commit(file)
    first.stop()
    second = Writer(tmp_path)
    second.start()
    assert second.path(file).name == "00000001.db"  # ahead of the heads is not behind
    eventually(lambda: second.heads().tenants[file].version == 3, "it is announced")
    second.stop()
