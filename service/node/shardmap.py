"""Which files are this writer's to write, and who writes the others."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from service.errors import NotTheWriter, Unavailable
from service.replica import Publisher
from service.tenancy.view import RegistryView

#: A move takes about so long when both writers are up.
MOVE_S = 2


class ShardMap:
    """What one shard's writer knows of all. Safe to share among threads."""

    def __init__(self, shard: str, *, view: RegistryView, publisher: Publisher) -> None:
        """Prepare.

        Args:
            shard: this writer's.
            view: says which tenant is where; on other shards than `main`, a replica.
            publisher: knows which files are sealed.
        """
        self.shard = shard
        self._view = view
        self._publisher = publisher
        self._lock = threading.Lock()
        self._urls: dict[str, str] = {}

    def check(self, file: str) -> None:
        """Pass if a batch for this file may be committed here now.

        Raises:
            Unavailable: its tenant is moving, or this node has not heard of it yet.
            NotTheWriter: another shard has it.
        """
        placed = self._view.placement(file)
        if placed is None:
            raise Unavailable("this writer has not heard of the tenant yet")
        if self.shard not in (placed.shard, placed.moving_to):
            raise NotTheWriter(
                f"the tenant is on shard {placed.shard}, this is a writer of shard {self.shard}",
                writer_url=self.url(placed.shard),
            )
        if placed.moving_to is not None or file in self._publisher.sealed_files():
            raise Unavailable("the tenant is moving to another shard", retry_after_s=MOVE_S)

    def url(self, shard: str) -> str | None:
        """Where a shard's batches are taken, if it was heard of."""
        with self._lock:
            return self._urls.get(shard) or None

    def learn(self, urls: Mapping[str, str]) -> None:
        """What the heads of shards say of that."""
        with self._lock:
            self._urls.update(urls)
