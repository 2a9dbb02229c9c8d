"""When to look at which shard: often where it matters, seldom elsewhere, never too often. Pure.

Every look and every listing costs one token of a bucket that fills with `polls_per_s`. Whoever has
been due for longest comes first, so when tokens are short all shards are looked at equally late.
Times are seconds of the monotonic clock, given by the caller.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable

from service.settings import Settings

#: How often a shard is looked at while somebody waits for news of it.
EAGER_S = 0.05
#: Least time between two listings, however many wait for a shard that is not known.
LIST_LEAST_S = 0.25
#: Tokens that may gather, as a part of a second's.
BURST_S = 0.2

_HEADS = re.compile(r"heads/([A-Za-z0-9][A-Za-z0-9_.-]{0,62})\.json")


def shard_of(key: str) -> str | None:
    """The shard whose heads lie under this key; None for any other key."""
    match = _HEADS.fullmatch(key)
    return None if match is None else match[1]


class Bucket:
    """Tokens that come at a steady rate; a bounded number gathers."""

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self._most = max(1.0, per_s * BURST_S)
        self._tokens = self._most
        self._at = 0.0

    def take(self, now: float) -> bool:
        """Take a token, if there is one."""
        self._fill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def wait_s(self, now: float) -> float:
        """How long until there is one."""
        self._fill(now)
        return max(0.0, (1.0 - self._tokens) / self._per_s)

    def _fill(self, now: float) -> None:
        if self._at:
            self._tokens = min(self._most, self._tokens + (now - self._at) * self._per_s)
        self._at = now


@dataclasses.dataclass(slots=True)
class _Shard:
    due: float
    pause_s: float
    tried: float = -1.0
    began: float = -1.0
    missing_since: float | None = None


class Schedule:
    """The shards of one reader and when each is due. Not for several threads at once.

    Args:
        pinned: the shards to follow; empty to follow those that listings show.
        settings: `poll_interval_ms`, `idle_poll_ms`, `polls_per_s`, `shards_interval_ms`,
            `shard_gone_ms`.
    """

    def __init__(self, pinned: Iterable[str], settings: Settings) -> None:
        self._least_s = settings.poll_interval_ms / 1_000
        self._most_s = max(self._least_s, settings.idle_poll_ms / 1_000)
        self._list_s = settings.shards_interval_ms / 1_000
        self._gone_s = settings.shard_gone_ms / 1_000
        self._bucket = Bucket(settings.polls_per_s)
        self._shards = {name: _Shard(0.0, self._least_s) for name in sorted(pinned)}
        self._discovers = not self._shards
        self._list_due = 0.0
        self._list_tried = -1.0
        self._listed_at = -1.0

    @property
    def names(self) -> list[str]:
        """The shards that are followed."""
        return list(self._shards)

    # --- what is due

    def next(self, now: float) -> str | None:
        """Take a token for what is due first: a shard's name, "" for the listing, None to wait."""
        name, due = self._first()
        if due > now or not self._bucket.take(now):
            return None
        return name

    def wait_s(self, now: float) -> float:
        """How long until `next` has something."""
        return max(self._first()[1] - now, self._bucket.wait_s(now), 0.0)

    def _first(self) -> tuple[str, float]:
        best = ("", self._list_due if self._discovers else float("inf"))
        for name, shard in self._shards.items():
            if shard.due < best[1]:
                best = (name, shard.due)
        return best

    # --- what happened

    def looked(self, name: str, began: float, *, hot: bool, missing: bool) -> None:
        """A look at a shard that began then, and whether anybody cares for the shard.

        Args:
            name: the shard.
            began: when the look began.
            hot: it owns a registry, or tenants that were queried lately.
            missing: the store has no such object.
        """
        if (shard := self._shards.get(name)) is None:
            return
        shard.pause_s = self._least_s if hot else min(shard.pause_s * 2, self._most_s)
        shard.due = began + shard.pause_s
        shard.tried = shard.began = began
        if not missing:
            shard.missing_since = None
        elif shard.missing_since is None:
            shard.missing_since = began

    def failed(self, name: str, began: float) -> None:
        """A look failed: it tells nothing, so it never counts as one that was made."""
        if (shard := self._shards.get(name)) is not None:
            shard.due = began + shard.pause_s
            shard.tried = began

    def listed(self, names: Iterable[str], began: float) -> None:
        """A listing that began then showed these shards."""
        self._listed_at = self._list_tried = began
        self._list_due = began + self._list_s
        for name in names:
            self._shards.setdefault(name, _Shard(began, self._least_s))

    def list_failed(self, began: float) -> None:
        """A listing failed; it is tried again after the usual time."""
        self._list_due = began + self._list_s
        self._list_tried = began

    def hurry(self, names: Iterable[str], now: float, *, list_too: bool = False) -> None:
        """Somebody waits for news of these shards, or of one that is not known yet."""
        for name in names:
            if (shard := self._shards.get(name)) is not None:
                shard.pause_s = self._least_s
                shard.due = min(shard.due, max(now, shard.tried + EAGER_S))
        if list_too:
            self._list_due = min(self._list_due, max(now, self._list_tried + LIST_LEAST_S))

    def seen_all_since(self, moment: float) -> bool:
        """Has everything been looked at, and listed, in looks that began after this moment?"""
        if self._discovers and self._listed_at < moment:
            return False
        return all(shard.began >= moment for shard in self._shards.values())

    def take_gone(self, now: float) -> list[str]:
        """Forget and return the shards that were missing for so long that it is sure.

        Never all of them: a store that shows no shard at all is more likely the wrong store.
        """
        if not self._discovers:
            return []
        missing = [n for n, s in self._shards.items() if s.missing_since is not None]
        if len(missing) == len(self._shards):
            return []
        gone = [n for n in missing if now - (self._shards[n].missing_since or now) >= self._gone_s]
        for name in gone:
            del self._shards[name]
        return gone
