"""What a follower remembers of each file's catching up: when it was due, since when it fails.

Used with the follower's lock held, but for nothing that takes long.
"""

from __future__ import annotations

import time

from service.replica.counters import Counters
from service.replica.freshness import now_ms
from service.replica.node import Node, Replica
from service.replica.residents import Residents
from service.settings import Settings

#: A large file's full check begins so long after its first answer could be given.
CHECK_AFTER_MS = 500


class Upkeep:
    """One follower's. Times are monotonic ms.

    Counters: frozen, canary_arrivals, canary_lag_ms (summed: commit to visible, over two machines'
    clocks), canary_interval_ms (summed: between arrivals, by our clock alone).
    """

    def __init__(self, here: Residents, node: Node, counters: Counters, settings: Settings) -> None:
        self._here = here
        self._node = node
        self._counters = counters
        self._frozen_ms = settings.frozen_ms
        self._done: dict[str, float] = {}
        self._trying: dict[str, float] = {}
        self._arrived: dict[str, float] = {}
        self._unchecked = {file: 0.0 for file, each in here.replicas.items() if not each.checked}

    def due(self, file: str, pause_ms: float) -> bool:
        """Was its last catching up at least so long ago?"""
        return now_ms() - self._done.get(file, 0.0) >= pause_ms

    def trying(self, file: str) -> bool:
        """It is about to be brought up.

        Returns:
            Whether its replica is frozen: heads went on, attempts were made, and for `frozen_ms`
            none succeeded. The count starts anew then.
        """
        now = now_ms()
        if now - self._trying.setdefault(file, now) < self._frozen_ms:
            return False
        replica = self._here.replicas.get(file)
        if replica is None or replica.dirty:
            return False
        self._trying[file] = now
        self._counters.add("frozen")
        return True

    def done(self, before: Replica | None, after: Replica) -> None:
        """It was brought up."""
        file, now = after.file, now_ms()
        self._done[file] = now
        self._trying.pop(file, None)
        if not after.checked and (before is None or before.path != after.path):
            self._unchecked[file] = now + CHECK_AFTER_MS
        shard = self._here.canary_of(file)
        if shard is not None and (before is None or after.version > before.version):
            self._canary(shard, after, now, seen=before is not None)

    def forget(self, file: str) -> None:
        """It is no longer here."""
        for known in (self._done, self._trying, self._unchecked):
            known.pop(file, None)

    def take_unchecked(self) -> list[str]:
        """Files whose full check is due; each is given out once."""
        now = now_ms()
        due = [file for file, at in self._unchecked.items() if at <= now]
        for file in due:
            del self._unchecked[file]
        return [file for file in due if file in self._here.replicas]

    def check_soon(self, file: str) -> None:
        """Its check could not be made just now."""
        self._unchecked[file] = now_ms() + CHECK_AFTER_MS

    def _canary(self, shard: str, replica: Replica, now: float, *, seen: bool) -> None:
        self._node.put_canary(shard, replica.version, now)
        self._counters.add("canary_arrivals")
        last = self._arrived.get(shard)
        self._arrived[shard] = now
        if last is not None:
            self._counters.add("canary_interval_ms", round(now - last))
        if seen:  # the first one may be old
            lag_ms = round(time.time() * 1_000) - replica.committed_at
            self._counters.add("canary_lag_ms", max(0, lag_ms))
