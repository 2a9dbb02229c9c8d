from __future__ import annotations

from service.replica import heads as documents
from service.replica import new_file
from service.replica.counters import Counters
from service.replica.heads import Head, Heads
from service.replica.retire import OldEpochs
from tests.replica.memory_store import MemoryStore

KEEP_S = 3_600.0


class World:
    def __init__(self) -> None:
        self.now = 0.0
        self.store = MemoryStore()
        self.file, self.other = new_file(), new_file()
        self.counters = Counters()
        self.old = OldEpochs(
            self.store,
            "0",
            old_epochs_ms=3_600_000,
            counters=self.counters,
            pause_s=0,
            clock_s=lambda: self.now,
        )

    def upload(self, file: str, epoch: int, count: int = 2) -> None:
        for txid in range(1, count + 1):
            self.store.put(f"v1/{file}/{epoch:08d}.db/ltx/0/{txid:016x}-{txid:016x}.ltx", b"x")

    def announce(self, **epochs: int) -> None:
        tenants = {file: Head(epoch, 2, 2, 0) for file, epoch in epochs.items()}
        self.store.put("heads/0.json", documents.encode(Heads("0", 1, 0, tenants)))

    def epochs(self, file: str) -> set[int]:
        keys = [key for key in self.store.objects if key.startswith(f"v1/{file}/")]
        return {int(key.split("/")[2].removesuffix(".db")) for key in keys}


def test_older_epochs_go_when_the_newer_one_has_been_announced_for_long_enough() -> None:
    world = World()
    for epoch in (1, 1_000, 2_000, 5_000):
        world.upload(world.file, epoch)
    world.upload(world.other, 1)
    world.announce(**{world.file: 2_000, world.other: 1})
    world.old.sweep()
    world.now += KEEP_S - 1
    world.old.sweep()
    assert world.epochs(world.file) == {1, 1_000, 2_000, 5_000}
    world.now += 1
    world.old.sweep()
    assert world.epochs(world.file) == {2_000, 5_000}  # a newer one may be announced next
    assert world.epochs(world.other) == {1}
    assert world.counters.snapshot() == {"old_epochs": 2, "old_objects": 4}


def test_every_new_epoch_starts_the_wait_anew() -> None:
    world = World()
    for epoch in (1, 1_000, 2_000):
        world.upload(world.file, epoch)
    world.announce(**{world.file: 1_000})
    world.old.sweep()
    world.now += KEEP_S - 1
    world.announce(**{world.file: 2_000})
    world.old.sweep()
    world.now += KEEP_S - 1
    world.old.sweep()
    assert world.epochs(world.file) == {1, 1_000, 2_000}
    world.now += 1
    world.old.sweep()
    assert world.epochs(world.file) == {2_000}


def test_nothing_is_announced_nothing_is_removed() -> None:
    world = World()
    world.upload(world.file, 1)
    world.old.sweep()
    world.announce(**{world.file: 1})
    world.old.sweep()
    world.announce()
    world.now += 2 * KEEP_S
    world.old.sweep()
    assert world.epochs(world.file) == {1}
