from __future__ import annotations

import os
from pathlib import Path

import pytest

from service.errors import ReplicationError
from service.replica import names


def test_new_names_are_long_random_and_safe_in_a_path() -> None:
    made = {names.new_file() for _ in range(100)}
    assert len(made) == 100
    assert all(names.check_file(name) == name and len(name) == 26 for name in made)


@pytest.mark.parametrize("name", ["", "..", "../x", "A" * 26, "a" * 25, "a" * 27, "a" * 25 + "/"])
def test_nothing_else_becomes_part_of_a_path(name: str) -> None:
    with pytest.raises(ReplicationError):
        names.writer_path(Path("/data"), name, 1)


def test_the_newest_epoch_is_the_current_file(tmp_path: Path) -> None:
    file = names.new_file()
    assert names.latest_epoch(tmp_path, file) is None
    assert names.current_path(tmp_path, file).name == "00000001.db"
    for epoch in (1, 3):
        path = names.writer_path(tmp_path, file, epoch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    path.with_name("00000009.db-wal").touch()
    assert names.current_path(tmp_path, file).name == "00000003.db"
    assert names.local_files(tmp_path) == [file]


def test_a_socket_path_always_fits_its_address(tmp_path: Path) -> None:
    assert names.socket_path(tmp_path, "s.sock") == tmp_path / "s.sock"
    deep = tmp_path / ("long-" * 30)
    path = names.socket_path(deep, "s.sock")
    assert len(os.fsencode(path)) <= names.SOCKET_PATH_BYTES
    assert path == names.socket_path(deep, "s.sock")
    assert path != names.socket_path(deep / "other", "s.sock")
    assert path.parent.stat().st_mode & 0o077 == 0
    for name in (deep, deep / "other"):
        names.socket_path(name, "s.sock").parent.rmdir()


def test_every_ownership_has_epochs_of_its_own(tmp_path: Path) -> None:
    assert (names.first_epoch(0), names.first_epoch(7)) == (1, 7_000)
    assert names.next_epoch(0, 1) == 2  # nobody contends
    assert names.next_epoch(7, 1, 3_000) == 7_000
    assert names.next_epoch(7, 7_000) == 7_001  # again under the same ownership
    assert names.next_epoch(8, 7_001) == 8_000
    file = names.new_file()
    path = names.writer_path(tmp_path, file, 123_456 * names.EPOCHS_A_TERM)
    path.parent.mkdir(parents=True)
    path.touch()
    assert names.latest_epoch(tmp_path, file) == 123_456_000  # more digits than usual
    assert names.epoch_of_key(names.replica_prefix(file, 123_456_000) + "0000/x") == 123_456_000
    assert names.epoch_of_key(f"v1/{file}/other/x") is None
