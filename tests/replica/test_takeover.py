"""A shard changes hands: what each owner wrote, where, and what the next one finds."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from service.errors import ReplicationError, Unavailable
from service.replica import (
    FolderStore,
    LitestreamSupervisor,
    Publisher,
    Restored,
    Tenure,
    current_path,
    local_files,
    names,
    prepare,
)
from service.replica.fencing import fence
from service.replica.restore import ASIDE, ASIDE_S
from service.replica.stamps import read_stamps
from service.replica.tenure import read_note
from tests.replica.world import Writer, digest, eventually, reader


class Owner(Writer):
    """A writer with a data folder of its own, under one tenure."""

    def __init__(self, root: Path, name: str, term: int) -> None:
        super().__init__(root)
        self.data = root / name
        self.store = FolderStore(root / "store")
        self.take(term)

    def take(self, term: int) -> None:
        self.tenure = Tenure(term, read_note(self.data).new_owner())

    def start(self) -> Owner:
        self.restored = self.prepare()
        self.litestream = LitestreamSupervisor(
            self.data, self.store, sync_interval_ms=100, backoff_ms=1_000
        )
        self.litestream.start()
        watched = [current_path(self.data, file) for file in local_files(self.data)]
        self.litestream.wait_initialised(watched, 10_000)
        self.publisher = self.publish()
        return self

    def prepare(self) -> list[Restored]:
        return prepare(self.data, self.store, shard="0", tenure=self.tenure)

    def publish(self, registry: str | None = None) -> Publisher:
        publisher = Publisher(
            self.data,
            self.store,
            shard="0",
            registry=registry,
            heads_interval_ms=self.heads_interval_ms,
            heads_heartbeat_ms=self.heartbeat_ms,
            tenure=self.tenure,
        )
        publisher.start()
        return publisher

    def epoch(self, file: str) -> int:
        return int(self.path(file).stem)


def test_a_paused_owner_damages_nothing_and_acknowledges_nothing(tmp_path: Path) -> None:
    first = Owner(tmp_path, "a", 1).start()
    file = first.create(batches=3)
    first.replicated(file)
    pid = first.litestream.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    first.commit(file)  # acknowledged by nobody

    second = Owner(tmp_path, "b", 2).start()
    assert second.restored == [Restored(file, 1, 2_000, 3)]
    second.versions[file] = 3
    for _ in range(4):
        second.commit(file)
    second.replicated(file)
    contents = digest(second.path(file))

    os.kill(pid, signal.SIGCONT)
    with pytest.raises(Unavailable, match="lost its shard"):
        first.publisher.replicate_now(file, 4, 10_000)
    assert first.publisher.counters["fenced"] == 1
    with pytest.raises(Unavailable, match="lost its shard"):
        first.publisher.check_keeping_up(60_000)
    first.commit(file)  # what its Litestream uploads lies where nobody looks
    first.stop()
    with reader(tmp_path / "cache", second.store) as node:
        node.client.ensure(file, 7, deadline_ms=10_000)
        assert digest(node.reaches(file, 7)) == contents
    second.stop()


def test_a_fence_changes_nothing_for_readers_and_everything_for_the_old_owner(
    tmp_path: Path,
) -> None:
    first = Owner(tmp_path, "a", 1).start()
    file = first.create()
    first.replicated(file)
    first.publisher.stop(2_000)
    before = first.heads()
    known = fence(first.store, "0", Tenure(2, "b/1"))
    after = first.heads()
    assert known == before
    assert (after.seq, after.published_at, after.tenants) == (
        before.seq,
        before.published_at,
        before.tenants,
    )
    assert (after.term, after.owner) == (2, "b/1")
    with pytest.raises(ReplicationError, match="later owner"):
        fence(first.store, "0", Tenure(1, "a/1"))
    late = first.publish()
    eventually(lambda: late.counters["fenced"] == 1, "the fence is met at the first look")
    late.stop(1_000)
    first.publisher = late
    first.stop()
    assert first.heads() == after


def test_the_folder_that_owned_last_keeps_its_epochs_and_its_local_commits(tmp_path: Path) -> None:
    first = Owner(tmp_path, "a", 1).start()
    file = first.create(batches=2)
    first.replicated(file)
    first.publisher.stop(2_000)
    first.commit(file)  # committed, never announced
    first.stop()
    first.take(4)
    first.start()
    assert (first.restored, first.epoch(file)) == ([], 1)
    eventually(lambda: first.heads().tenants[file].version == 3, "it is announced")
    assert first.heads().term == 4
    first.stop()


def test_a_folder_that_comes_back_moves_what_is_current_and_rebuilds_what_is_not(
    tmp_path: Path,
) -> None:
    first = Owner(tmp_path, "a", 1).start()
    kept, changed, unheard = (first.create(batches=2) for _ in range(3))
    for file in (kept, changed):
        first.replicated(file)
    first.publisher.forget(unheard, 5_000)
    first.commit(kept)
    first.replicated(kept)
    first.stop()
    was = digest(first.path(kept))

    # The second owner gets as far as announcing one file under an epoch of its own.
    second = Owner(tmp_path, "b", 2)
    assert {one.file for one in second.prepare()} == {kept, changed}
    only = second.path(kept).parent
    shutil.move(only, tmp_path / "held back")
    second.litestream = LitestreamSupervisor(
        second.data, second.store, sync_interval_ms=100, backoff_ms=1_000
    )
    second.litestream.start()
    second.litestream.wait_initialised([second.path(changed)], 10_000)
    second.publisher = second.publish()
    second.versions[changed] = 2
    second.commit(changed)
    second.replicated(changed)
    second.stop()

    first.take(3)
    assert first.prepare() == [Restored(changed, 2_000, 3_000, 3)]
    assert (first.epoch(kept), first.epoch(changed)) == (3_000, 3_000)
    assert digest(first.path(kept)) == was  # its log moved along
    assert read_stamps(first.path(kept)).version == 3
    assert local_files(first.data) == sorted([kept, changed])
    aside = sorted(path.name[:26] for path in (first.data / "writer" / "set-aside").iterdir())
    assert aside == sorted([changed, unheard])
    assert [path.name for path in first.path(kept).parent.glob("*.db")] == ["00003000.db"]
    first.start()
    eventually(lambda: first.heads().tenants[kept].epoch == 3_000, "a fresh snapshot")
    first.stop()


def test_a_take_over_that_was_cut_short_is_done_in_full_the_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Owner(tmp_path, "a", 1).start()
    file = first.create(batches=2)
    first.replicated(file)
    first.stop()
    fence(first.store, "0", Tenure(2, "b/1"))  # another owner was here, and did no more
    first.take(3)
    with monkeypatch.context() as patch:
        patch.setattr("service.replica.restore._move", _killed)
        with pytest.raises(KeyboardInterrupt):
            first.prepare()
    assert first.heads().owner == first.tenure.owner  # so the heads alone do not tell
    first.take(4)
    assert first.prepare() == []
    assert first.epoch(file) == 4_000


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_a_move_cut_short_between_its_names_leaves_one_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Owner(tmp_path, "a", 1).start()
    file = first.create(batches=5)
    first.replicated(file)
    first.stop()
    contents = digest(first.path(file))
    fence(first.store, "0", Tenure(2, "b/1"))
    links: list[str] = []
    link = os.link

    def failing(old: Path, new: Path) -> None:
        links.append(new.name)
        if len(links) == failing_at:
            raise KeyboardInterrupt
        link(old, new)

    for failing_at in (1, 2):
        links.clear()
        first.take(2 + failing_at)
        with monkeypatch.context() as patch:
            patch.setattr("service.replica.restore.os.link", failing)
            with pytest.raises(KeyboardInterrupt):
                first.prepare()
        assert digest(first.path(file)) == contents
    first.take(9)
    assert first.prepare() == []
    assert first.epoch(file) == 9_000
    assert digest(first.path(file)) == contents


def test_a_copy_of_a_data_folder_is_another_folder(tmp_path: Path) -> None:
    first = Owner(tmp_path, "a", 1).start()
    file = first.create()
    first.replicated(file)
    first.stop()
    shutil.copytree(first.data, tmp_path / "copy")
    copy = Owner(tmp_path, "copy", 2)
    assert copy.prepare() == []
    assert copy.epoch(file) == 2_000  # never the prefix of the original
    assert names.latest_epoch(first.data, file) == 1


def test_what_was_set_aside_goes_after_a_week(tmp_path: Path) -> None:
    owner = Owner(tmp_path, "a", 1)
    aside = tmp_path / "a" / "writer" / ASIDE
    week = time.time() - ASIDE_S
    for name, moment in (("old", week - 60), ("young", week + 60)):
        (aside / name).mkdir(parents=True)
        (aside / name / "00000001.db").touch()
        os.utime(aside / name, (moment, moment))
    owner.prepare()
    assert [path.name for path in aside.iterdir()] == ["young"]
