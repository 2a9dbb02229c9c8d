"""What a reader node knows and holds: heads, their clocks, replicas. No thread, no network.

The follower guards it with its own lock; `node` keeps it on disk for the workers and the next
follower.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path

import apsw

from service.replica.canary import canary_file
from service.replica.counters import Counters
from service.replica.freshness import ShardClock, as_of_ms, first_look, now_ms, satisfies
from service.replica.heads import Head, Heads
from service.replica.node import Node, Replica
from service.replica.quarantine import Quarantine


class Residents:
    """The follower's state; every change is on disk when a method returns.

    Attributes:
        replicas: resident files by name.
        heads: shard and newest head of every file announced.
        pins: until when (monotonic ms) files are kept from eviction; some may have passed.
    """

    def __init__(self, node: Node, counters: Counters, quarantine: Quarantine) -> None:
        """Take over what the last follower of this boot left, and clear away what it lost."""
        self._node = node
        self._counters = counters
        self._quarantine = quarantine
        self._clocks = node.shards()
        self._looked: set[str] = set()
        self._registries: dict[str, str | None] = {}
        self._canaries = {canary_file(shard): shard for shard in self._clocks}
        self.heads: dict[str, tuple[str, Head]] = node.heads()
        self.replicas: dict[str, Replica] = node.replicas()
        self.pins = node.pins()
        self._files: dict[str, set[str]] = {}
        for file, (shard, _) in self.heads.items():
            self._files.setdefault(shard, set()).add(file)
        #: Files that may be behind: a superset, so that a look costs what changed, not what is.
        self._doubtful = set(self.replicas)
        self._tidy()

    # --- heads

    def take_over(self, shard: str, heads: Heads | None, began_ms: float) -> list[str]:
        """After a poll that began at `began_ms`: what it showed, or None for nothing new.

        While a file moves, two shards announce it: the entry that is further stands.

        Returns:
            Files that are gone from the heads.
        """
        clock = self._clocks.get(shard)
        if heads is not None:
            self._registries[shard] = heads.registry
            self._doubtful |= self.always() & heads.tenants.keys()
        if heads is None or (clock is not None and heads.seq <= clock.seq):
            if clock is not None:
                if heads is not None and heads.seq < clock.seq:
                    self._counters.add("old_heads")
                self._clocks[shard] = clock.polled(began_ms, clock.seq)
                self._node.put_polled(shard, began_ms)
            return []
        own = self._files.get(shard, set())
        changed = {f: head for f, head in heads.tenants.items() if self._news(shard, f, head)}
        gone = [file for file in own if file not in heads.tenants]
        frozen = {
            file: self.as_of_ms(file)
            for file in changed
            if file in self.heads and file in self.replicas
        }
        new = self._clock(shard, clock, heads, began_ms)
        self._node.put_shard(shard, new, heads.registry, changed, gone, frozen)
        self._clocks[shard] = new
        self._canaries[canary_file(shard)] = shard
        for file, head in changed.items():
            self._files.setdefault(self._owner(file, shard), set()).discard(file)
            self._files.setdefault(shard, set()).add(file)
            self.heads[file] = (shard, head)
        for file, moment in frozen.items():
            self.replicas[file] = dataclasses.replace(self.replicas[file], as_of_ms=moment)
        for file in gone:
            self._files[shard].discard(file)
            del self.heads[file]
        self._doubtful |= changed.keys() & (self.replicas.keys() | self.always())
        return gone

    def forget_shard(self, shard: str) -> list[str]:
        """A shard is gone for good.

        Returns:
            The files it announced.
        """
        self._node.drop_shard(shard)
        self._clocks.pop(shard, None)
        self._registries.pop(shard, None)
        self._canaries.pop(canary_file(shard), None)
        gone = self._files.pop(shard, set())
        for file in gone:
            del self.heads[file]
        return list(gone)

    def _owner(self, file: str, default: str) -> str:
        return self.heads[file][0] if file in self.heads else default

    def _news(self, shard: str, file: str, head: Head) -> bool:
        known = self.heads.get(file)
        if known is None:
            return True
        of, old = known
        if of == shard:
            return old != head
        return (head.epoch, head.txid, head.version) > (old.epoch, old.txid, old.version)

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

    def always(self) -> set[str]:
        """Files that belong here whoever asks: registries and canaries."""
        return {file for file in self._registries.values() if file} | self._canaries.keys()

    def canary_of(self, file: str) -> str | None:
        """The shard whose canary this file is."""
        return self._canaries.get(file)

    def resident_in(self, shard: str) -> list[str]:
        """The resident files of a shard."""
        files = self._files.get(shard, set())
        return [file for file in self.replicas if file in files]

    def owns_registry(self, shard: str) -> bool:
        """Does this shard announce the registry?"""
        return self._registries.get(shard) is not None

    def current(self, file: str) -> bool:
        """Does the replica hold all that was announced?"""
        replica = self.replicas.get(file)
        if replica is None or replica.dirty or file not in self.heads:
            return False
        return satisfies(replica.epoch, replica.txid, replica.version, self.heads[file][1])

    def behind(self) -> list[str]:
        """Announced files that belong here and are not current."""
        always = self.always()
        self._doubtful = {
            file
            for file in self._doubtful
            if file in self.heads and not self.current(file)
            if file in self.replicas or file in always
        }
        return list(self._doubtful)

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

    def put(self, replica: Replica) -> None:
        """The replica's new state, which is on disk already."""
        self.replicas[replica.file] = replica
        self._doubtful.add(replica.file)

    def reload(self, file: str) -> None:
        """After a failure: what the disk says of a file, which may be dirty or gone now."""
        self._doubtful.add(file)
        row = self._node.replicas().get(file)
        if row is None:
            self.replicas.pop(file, None)
        else:
            self.replicas[file] = row

    def condemn(self, file: str, cause: str) -> None:
        """The replica is damaged: it goes into quarantine and is restored next."""
        replica = self.replicas[file]
        self._node.mark_dirty(file)
        self.put(dataclasses.replace(replica, dirty=True))
        self._quarantine.take(Path(replica.path), cause)

    def drop(self, file: str, counter: str) -> None:
        """Remove a replica; connections to it notice with their next `check_clean`."""
        if (replica := self.replicas.pop(file, None)) is None:
            return
        try:
            self._node.drop_replica(file)
        except apsw.FullError:
            # No room even to note it: make some, then. A file without a row is cleared at start.
            Path(replica.path).unlink(missing_ok=True)
            self._node.drop_replica(file)
        Path(replica.path).unlink(missing_ok=True)
        self._counters.add(counter)

    def pin(self, file: str, until_ms: float, most_bytes: int) -> bool:
        """Keep a resident file from eviction until then (monotonic ms), if there is room for it."""
        now = now_ms()
        for old in [each for each, until in self.pins.items() if until <= now]:
            del self.pins[old]
            self._node.put_pin(old, 0)
        pinned = [self.replicas[f].bytes for f in self.pins if f in self.replicas and f != file]
        if sum(pinned) + self.replicas[file].bytes > most_bytes:
            return False
        self.pins[file] = until_ms
        self._node.put_pin(file, until_ms)
        return True

    def _tidy(self) -> None:
        registered = {replica.path for replica in self.replicas.values()}
        for path in self._node.files.iterdir():
            if str(path) not in registered:
                path.unlink()
        for file, replica in list(self.replicas.items()):
            if file not in self.heads or not Path(replica.path).exists():
                self.drop(file, "dropped")
