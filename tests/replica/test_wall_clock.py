"""A step of the wall clock, on the writer's machine or on ours, makes nothing older or younger."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from service.replica import FolderStore
from tests.replica.shard_world import Shard
from tests.replica.world import Reader, eventually, reader

HOUR_S = 3_600.0


class WallClock:
    """The real one, moved."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.moved_s = 0.0
        real = time.time
        monkeypatch.setattr(time, "time", lambda: real() + self.moved_s)


def age_ms(node: Reader, file: str) -> int:
    view = node.worker.view(file)
    assert view is not None
    return view.age_ms


@pytest.mark.parametrize("hours", [-3, 3])
def test_a_step_of_the_wall_clock_moves_no_age(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hours: int
) -> None:
    clock = WallClock(monkeypatch)
    shard = Shard(tmp_path, FolderStore(tmp_path / "store"), "main")
    file = shard.create()
    shard.publish()
    with reader(tmp_path / "cache", shard.store, ()) as node:
        node.client.ensure(file, deadline_ms=10_000)
        clock.moved_s = hours * HOUR_S
        version = shard.commit(file)
        shard.publish()
        node.client.ensure(file, version, deadline_ms=10_000)
        eventually(lambda: age_ms(node, file) < 5_000, "it is as fresh as it was")
        # Silence is staleness whatever the clock on the wall says.
        clock.moved_s = -hours * HOUR_S
        before = age_ms(node, file)
        eventually(lambda: age_ms(node, file) >= before + 500, "it grows older by our own clock")
        assert age_ms(node, file) < before + 60_000
