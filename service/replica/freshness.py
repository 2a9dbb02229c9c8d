"""How old a replica's knowledge is, by this machine's own clock. Pure.

Times are milliseconds of the monotonic clock, which all processes of one boot share, so a step of
the wall clock changes no age. Only the very first look at a shard uses the writer's clock.

A publication that we first saw in poll k was not there when poll k-1 began, so it was made after
that: `as_of` is when the last poll began that did not show it. Strictly, it appeared after that,
and it was made one PUT earlier; so the document tells how long PUTs of late have taken at most, and
that is taken off. `as_of` can be too young only by what one PUT took longer than that.
A replica that holds all of the newest publication is as fresh as that; any other stays as fresh
as the last publication it held. Silence is staleness: nothing new published, nothing gets younger.
"""

from __future__ import annotations

import dataclasses
import time

from service.replica.heads import Head


def now_ms() -> float:
    """Milliseconds of the clock that all ages are computed from."""
    return time.monotonic() * 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class ShardClock:
    """What a node knows of a shard's publications.

    Attributes:
        seq: the newest seen.
        as_of_ms: no earlier than this was it made.
        polled_ms: when the last successful poll began.
    """

    seq: int
    as_of_ms: float
    polled_ms: float

    def polled(self, began_ms: float, seq: int, put_ms: float = 0.0) -> ShardClock:
        """After a poll that began at `began_ms` and showed `seq`; an older one changes nothing.

        Args:
            began_ms: when the poll began.
            seq: the newest publication it showed.
            put_ms: `Heads.put_ms` of that.
        """
        if seq <= self.seq:
            return ShardClock(self.seq, self.as_of_ms, began_ms)
        return ShardClock(seq, max(self.as_of_ms, self.polled_ms - put_ms), began_ms)


def first_look(began_ms: float, seq: int, claimed_age_ms: float) -> ShardClock:
    """A shard's first poll: the writer's own time of publication, never in the future."""
    return ShardClock(seq, began_ms - max(claimed_age_ms, 0.0), began_ms)


def satisfies(epoch: int, txid: int, version: int, head: Head) -> bool:
    """Does a replica in this state hold all that `head` announced?"""
    return epoch == head.epoch and txid >= head.txid and version >= head.version


def as_of_ms(
    *, satisfied: bool, replica_as_of_ms: float, shard_as_of_ms: float, lag_ms: int
) -> float:
    """The moment up to which a replica surely has everything that was committed.

    Args:
        satisfied: the replica holds the newest head.
        replica_as_of_ms: the same moment of the last head it held before.
        shard_as_of_ms: `ShardClock.as_of_ms`.
        lag_ms: `Head.lag_ms`: commits older than this were replicated when the head was made.
    """
    if not satisfied:
        return replica_as_of_ms
    return max(replica_as_of_ms, shard_as_of_ms - lag_ms)
