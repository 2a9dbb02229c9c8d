"""Removing all objects of a file, also those that arrive late."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from service.errors import ReplicationError, Unavailable
from service.replica import FolderStore, new_file, writer_path
from service.replica.erase import EMPTY_LISTINGS, epochs_of, erase_local, erase_objects, let_go
from service.replica.names import replica_prefix
from service.replica.store import Listed


class Erasing:
    def __init__(self, root: Path) -> None:
        self.store = FolderStore(root / "store")
        self.file = new_file()
        self.noted: list[Listed] = []
        self.late = 0
        self.pauses = 0
        self.ends = False

    def put(self, epoch: int, name: str) -> None:
        self.store.put(f"{replica_prefix(self.file, epoch)}ltx/0/{name}.ltx", b"x" * 10)

    def pause(self, seconds: float) -> bool:
        """Between two listings: an upload that was under way arrives."""
        assert seconds == 0.02
        self.pauses += 1
        if self.late:
            self.late -= 1
            self.put(2, f"late-{self.pauses}")
        return self.ends

    def run(self, seconds: float = 10) -> None:
        erase_objects(
            self.store,
            self.file,
            settle_ms=20,
            deadline=time.monotonic() + seconds,
            note=self.noted.extend,
            ending=self.pause,
        )


@pytest.fixture
def erasing(tmp_path: Path) -> Erasing:
    made = Erasing(tmp_path)
    for epoch in (1, 2):
        for name in ("a", "b"):
            made.put(epoch, name)
    return made


def test_objects_of_all_epochs_go_and_each_is_noted(erasing: Erasing) -> None:
    other = Erasing(erasing.store.root.parent)
    other.put(1, "kept")
    erasing.run()
    assert list(erasing.store.list(f"v1/{erasing.file}/")) == []
    assert len(list(erasing.store.list(f"v1/{other.file}/"))) == 1
    assert len(erasing.noted) == 4
    assert epochs_of(erasing.noted) == {1, 2}
    erasing.run()
    assert len(erasing.noted) == 4


def test_an_upload_that_arrives_late_goes_too(erasing: Erasing) -> None:
    erasing.late = 3
    erasing.run()
    assert list(erasing.store.list(f"v1/{erasing.file}/")) == []
    assert len(erasing.noted) == 7
    assert erasing.pauses == 3 + EMPTY_LISTINGS


def test_objects_that_keep_arriving_are_not_called_gone(erasing: Erasing) -> None:
    erasing.late = 10**6
    with pytest.raises(Unavailable, match="still there"):
        erasing.run(seconds=0.0)
    erasing.late, erasing.ends = 0, True
    with pytest.raises(Unavailable, match="stops"):
        erasing.run()


def test_all_that_the_writers_disk_has_of_a_file_goes_and_nothing_else(tmp_path: Path) -> None:
    file, other = new_file(), new_file()
    for each in (file, other):
        for path in (
            writer_path(tmp_path, each, 1),
            writer_path(tmp_path, each, 1).with_name("00000001.db-wal"),
            tmp_path / "writer/litestream-meta" / each / "00000001.db-litestream/ltx/0/a.ltx",
            tmp_path / "writer/set-aside" / f"{each}-00000001-abcd" / "00000001.db",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"x")
    assert erase_local(tmp_path, file) == 4
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(left) == 4
    assert not [path for path in tmp_path.rglob("*") if file in path.name]
    assert erase_local(tmp_path, file) == 0


def test_without_an_answer_of_litestream_nobody_says_it_let_go(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="does not let go"):
        let_go(tmp_path, new_file(), time.monotonic() + 1)
    with pytest.raises(ReplicationError):
        erase_local(tmp_path, "../../etc")
