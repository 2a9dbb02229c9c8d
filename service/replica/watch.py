"""Looking at the heads of every shard and at which shards there are; `shards` says when."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Collection

import apsw

from service.errors import ReplicationError
from service.replica import heads as documents
from service.replica import heat, names
from service.replica.counters import Counters
from service.replica.evict import last_used
from service.replica.freshness import now_ms
from service.replica.log_gate import LogGate
from service.replica.residents import Residents
from service.replica.shards import Schedule, shard_of
from service.replica.store import Absent, ObjectStore, Stored
from service.settings import Settings

_log = logging.getLogger(__name__)


class Watch:
    """Brings a follower's heads up to date. `step` belongs to one thread, the rest to any.

    Attributes:
        looks: how many looks and listings ended; guarded by `news`, like all but `step`.
        answers: the last one succeeded.

    Counters: polls, failed_polls, listings, failed_listings, new_shards, gone_shards, dropped.
    """

    def __init__(
        self,
        store: ObjectStore,
        here: Residents,
        news: threading.Condition,
        counters: Counters,
        *,
        shards: Collection[str],
        settings: Settings,
    ) -> None:
        self._store = store
        self._here = here
        self._news = news
        self._counters = counters
        self._settings = settings
        self._schedule = Schedule(shards, settings)
        self._etags: dict[str, str] = {}
        self._gate = LogGate()
        self._leaving: dict[str, float] = {}
        self._eager: dict[str | None, int] = {}
        self.looks = 0
        self.answers = False

    # --- the polling thread

    def step(self) -> float:
        """Look at what is due first, if anything is.

        Returns:
            Seconds until something is due again.
        """
        now = time.monotonic()
        with self._news:
            self._hurry(now)
            name = self._schedule.next(now)
            if name is None:
                return self._schedule.wait_s(now)
        try:
            if name:
                self._look(name)
            else:
                self._list()
            answers = True
        except (ReplicationError, apsw.Error) as error:
            answers = False
            self._failed(name, now)
            if self._gate.opens():
                _log.warning("heads of %s cannot be followed: %s", name or "shards", error)
        self._counters.add("polls" if name else "listings")
        with self._news:
            self.looks += 1
            self.answers = answers
            self._news.notify_all()
            return self._schedule.wait_s(time.monotonic())

    def _look(self, shard: str) -> None:
        began, began_ms = time.monotonic(), now_ms()
        stored = self._store.get(names.heads_key(shard), known_etag=self._etags.get(shard))
        heads = documents.decode(stored.body) if isinstance(stored, Stored) else None
        with self._news:
            missing = stored is Absent.MISSING
            if not missing:
                for file in self._here.take_over(shard, heads, began_ms):
                    self._leaving.setdefault(file, began)
            self._schedule.looked(shard, began, hot=self._hot(shard), missing=missing)
            if self._leaving:
                # Perhaps it moved: it goes only when no other shard has it, looked at afterwards.
                self._schedule.hurry(self._schedule.names, began, list_too=True)
        if isinstance(stored, Stored):
            self._etags[shard] = stored.etag

    def _list(self) -> None:
        began = time.monotonic()
        found = [shard_of(item.key) for item in self._store.list("heads/")]
        with self._news:
            known = set(self._schedule.names)
            self._schedule.listed([name for name in found if name], began)
            if new := set(self._schedule.names) - known:
                self._counters.add("new_shards", len(new))
            for shard in self._schedule.take_gone(began):
                self._counters.add("gone_shards")
                self._etags.pop(shard, None)
                for file in self._here.forget_shard(shard):
                    self._leaving.setdefault(file, began)

    def _failed(self, name: str, began: float) -> None:
        self._counters.add("failed_polls" if name else "failed_listings")
        with self._news:
            if name:
                self._schedule.failed(name, began)
            else:
                self._schedule.list_failed(began)

    def _hot(self, shard: str) -> bool:
        if self._here.owns_registry(shard):
            return True
        now = time.time()
        return any(
            heat.pause_ms((now - last_used(self._here.replicas[file])) * 1_000, self._settings) == 0
            for file in self._here.resident_in(shard)
            if self._here.canary_of(file) is None
        )

    def _hurry(self, now: float) -> None:
        for shard in self._eager:
            if shard is None:
                self._schedule.hurry(self._schedule.names, now, list_too=True)
            else:
                self._schedule.hurry([shard], now)

    # --- for the follower, with `news` held

    def take_leavers(self) -> list[str]:
        """Files whose absence from every shard is sure now."""
        back = self._here.heads
        gone = [f for f, at in self._leaving.items() if f in back or self.seen_since(at)]
        for file in gone:
            del self._leaving[file]
        return [file for file in gone if file not in back]

    def seen_since(self, moment: float) -> bool:
        """Was everything looked at in looks that began after this monotonic moment, in seconds?"""
        return self._schedule.seen_all_since(moment)

    def hurry_for(self, file: str) -> str | None:
        """Somebody waits for news of a file: looks come often until `calm` gets the result."""
        known = self._here.heads.get(file)
        shard = None if known is None else known[0]
        self._eager[shard] = self._eager.get(shard, 0) + 1
        return shard

    def calm(self, shard: str | None) -> None:
        """One who waited does so no longer."""
        self._eager[shard] -= 1
        if not self._eager[shard]:
            del self._eager[shard]
