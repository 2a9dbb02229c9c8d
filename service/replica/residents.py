"""What a reader node knows and holds: heads, their clocks, replicas. No thread, no network.

The follower guards it with its own lock; `node` keeps it on disk for the workers and the next
follower.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Collection
from pathlib import Path

from service.replica.counters import Counters
from service.replica.freshness import ShardClock, as_of_ms, first_look, now_ms, satisfies
from service.replica.heads import Head, Heads
from service.replica.node import Node, Replica


class Residents:
    """The follower's state; every change is on disk when a method returns.

    Attributes:
        replicas: resident files by name.
        heads: shard and newest head of every file announced.
    """

    def __init__(self, node: Node, counters: Counters) -> None:
        """Take over what the last follower of this boot left, and clear away what it lost."""
        self._node = node
        self._counters = counters
        self._clocks = node.shards()
        self._looked: set[str] = set()
        self._registries: dict[str, str | None] = {}
        self.heads: dict[str, tuple[str, Head]] = node.heads()
        self.replicas: dict[str, Replica] = node.replicas()
        self._tidy()

    # --- heads

    def take_over(self, shard: str, heads: Heads | None, began_ms: float) -> list[str]:
        """After a poll that began at `began_ms`: what it showed, or None for nothing new.

        Returns:
            Files that are gone from the heads.
        """
        clock = self._clocks.get(shard)
        if heads is not None:
            self._registries[shard] = heads.registry
        if heads is None or (clock is not None and heads.seq <= clock.seq):
            if clock is not None:
                if heads is not None and heads.seq < clock.seq:
                    self._counters.add("old_heads")
                self._clocks[shard] = clock.polled(began_ms, clock.seq)
                self._node.put_polled(shard, began_ms)
            return []
        old = {file: head for file, (of, head) in self.heads.items() if of == shard}
        changed = {file: head for file, head in heads.tenants.items() if old.get(file) != head}
        gone = [file for file in old if file not in heads.tenants]
        frozen = {
            file: self.as_of_ms(file) for file in changed if file in old and file in self.replicas
        }
        new = self._clock(shard, clock, heads, began_ms)
        self._node.put_shard(shard, new, heads.registry, changed, gone, frozen)
        self._clocks[shard] = new
        self.heads.update({file: (shard, head) for file, head in changed.items()})
        for file, moment in frozen.items():
            self.replicas[file] = dataclasses.replace(self.replicas[file], as_of_ms=moment)
        for file in gone:
            del self.heads[file]
        return gone

    def _clock(
        self, shard: str, clock: ShardClock | None, heads: Heads, began_ms: float
    ) -> ShardClock:
        """A process's first new publication may use the writer's clock: its last look was long ago.

        Every later one is placed by our own polls alone.
        """
        first = first_look(began_ms, heads.seq, time.time() * 1_000 - heads.published_at)
        looked = shard in self._looked
        self._looked.add(shard)
        if clock is None:
            return first
        polled = clock.polled(began_ms, heads.seq, heads.put_ms)
        if looked:
            return polled
        return dataclasses.replace(polled, as_of_ms=max(polled.as_of_ms, first.as_of_ms))

    def target(self, file: str) -> tuple[Head, float]:
        """What a file is to be brought to, and the moment (monotonic ms) which that vouches for."""
        shard, head = self.heads[file]
        return head, self._clocks[shard].as_of_ms - head.lag_ms

    # --- replicas

    def current(self, file: str) -> bool:
        """Does the replica hold all that was announced?"""
        replica = self.replicas.get(file)
        if replica is None or replica.dirty or file not in self.heads:
            return False
        return satisfies(replica.epoch, replica.txid, replica.version, self.heads[file][1])

    def behind(self) -> list[str]:
        """Announced files that belong here and are not current; registries always belong here."""
        wanted = set(self.replicas) | {file for file in self._registries.values() if file}
        return [file for file in wanted if file in self.heads and not self.current(file)]

    def as_of_ms(self, file: str) -> float:
        """Up to when (monotonic ms) a resident, announced file surely has everything."""
        shard, head = self.heads[file]
        return as_of_ms(
            satisfied=self.current(file),
            replica_as_of_ms=self.replicas[file].as_of_ms,
            shard_as_of_ms=self._clocks[shard].as_of_ms,
            lag_ms=head.lag_ms,
        )

    def age_ms(self, file: str) -> int:
        """`as_of_ms` as an age."""
        return max(0, round(now_ms() - self.as_of_ms(file)))

    def reload(self, file: str) -> None:
        """After a failure: what the disk says of a file, which may be dirty or gone now."""
        row = self._node.replicas().get(file)
        if row is None:
            self.replicas.pop(file, None)
        else:
            self.replicas[file] = row

    def condemn(self, file: str) -> None:
        """The replica is damaged; it is restored next, and no worker uses it until then."""
        self._node.mark_dirty(file)
        self.replicas[file] = dataclasses.replace(self.replicas[file], dirty=True)

    def drop(self, file: str, counter: str) -> None:
        """Remove a replica; connections to it notice with their next `check_clean`."""
        if (replica := self.replicas.pop(file, None)) is not None:
            self._node.drop_replica(file)
            Path(replica.path).unlink(missing_ok=True)
            self._counters.add(counter)

    def evict(self, most_files: int, most_bytes: int, busy: Collection[str]) -> None:
        """Make room: the least recently used go first, busy files and registries never."""
        size = sum(replica.bytes for replica in self.replicas.values())
        if len(self.replicas) <= most_files and size <= most_bytes:
            return
        kept = {*busy, *self._registries.values()}
        idle = [replica for replica in self.replicas.values() if replica.file not in kept]
        for replica in sorted(idle, key=_last_used):
            if len(self.replicas) <= most_files and size <= most_bytes:
                return
            self.drop(replica.file, "evictions")
            size -= replica.bytes

    def _tidy(self) -> None:
        registered = {replica.path for replica in self.replicas.values()}
        for path in self._node.files.iterdir():
            if str(path) not in registered:
                path.unlink()
        for file, replica in list(self.replicas.items()):
            if file not in self.heads or not Path(replica.path).exists():
                self.drop(file, "dropped")


def _last_used(replica: Replica) -> float:
    try:
        return Path(replica.path).stat().st_atime
    except FileNotFoundError:
        return 0.0
