"""Making room: which replicas go when there are too many, too large, or the disk is nearly full.

The least recently used go first; registries, canaries, pinned files and those being brought up
never do. A query that runs keeps its file: only the name is removed, the content goes with the
last connection to it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from pathlib import Path

from service.replica.freshness import now_ms
from service.replica.node import Replica
from service.replica.quarantine import Quarantine
from service.replica.residents import Residents
from service.settings import Settings

#: Space comes back when the workers have closed what was removed; until then nothing more goes.
DISK_PAUSE_S = 2.0
#: How much is freed at once when a write found the disk full.
ROOM_BYTES = 64 * 1024 * 1024


class Evictor:
    """Keeps a node within its limits; used with the follower's lock held.

    Args:
        here: the replicas.
        quarantine: goes first when the disk is full.
        cache: the folder whose disk is watched.
        settings: `resident_tenants`, `resident_bytes`, `cache_free_bytes`.
    """

    def __init__(
        self, here: Residents, quarantine: Quarantine, cache: Path, settings: Settings
    ) -> None:
        self._here = here
        self._quarantine = quarantine
        self._cache = cache
        self._files_most = settings.resident_tenants
        self._bytes_most = settings.resident_bytes
        self._free_least = settings.cache_free_bytes
        self._next_look = 0.0

    def run(self, busy: Collection[str]) -> None:
        """Evict what is over the limits."""
        replicas = self._here.replicas.values()
        size = sum(replica.bytes for replica in replicas)
        count = len(replicas)
        short = max(size - self._bytes_most, self._short_of_disk())
        if count > self._files_most or short > 0:
            self.free(short, busy, count - self._files_most)

    def make_room(self, busy: Collection[str]) -> bool:
        """A write found the disk full: free some; whether there was anything to free."""
        freed = self._quarantine.clear()
        return self.free(ROOM_BYTES - freed, busy) > 0 or freed > 0

    def free(self, need_bytes: int, busy: Collection[str], need_files: int = 0) -> int:
        """Evict until so much is freed, as far as there is something to evict.

        Returns:
            The bytes freed.
        """
        freed = 0
        for replica in self._oldest_first(busy):
            if freed >= need_bytes and need_files <= 0:
                break
            self._here.drop(replica.file, "evictions")
            freed += replica.bytes
            need_files -= 1
        return freed

    def _oldest_first(self, busy: Collection[str]) -> list[Replica]:
        now = now_ms()
        pinned = {file for file, until in self._here.pins.items() if until > now}
        kept = {*busy, *pinned, *self._here.always()}
        idle = [each for each in self._here.replicas.values() if each.file not in kept]
        return sorted(idle, key=last_used)

    def _short_of_disk(self) -> int:
        now = time.monotonic()
        if not self._free_least or now < self._next_look:
            return 0
        disk = os.statvfs(self._cache)
        short = self._free_least - disk.f_bavail * disk.f_frsize
        if short > 0:
            self._next_look = now + DISK_PAUSE_S
        return short


def last_used(replica: Replica) -> float:
    """When a worker last used a replica (`ReplicaCache.touch`), in seconds since 1970."""
    try:
        return Path(replica.path).stat().st_atime
    except FileNotFoundError:
        return 0.0
