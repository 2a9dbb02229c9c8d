"""The heads object as only the shard's present owner can write it.

Each write is conditional on our own last one, and a new owner begins by rewriting the object with
its name (`fence`): from then on every write of an earlier owner fails, also one that was sent
before a pause and arrives after it.
"""

from __future__ import annotations

import dataclasses
import time

from service.errors import ReplicationError
from service.replica import heads as documents
from service.replica.heads import Heads
from service.replica.keeper import lost_shard
from service.replica.names import heads_key
from service.replica.spans import spans
from service.replica.store import ObjectStore, Stored
from service.replica.tenure import UNFENCED, Tenure

#: The former owner publishes a few times a second; so many lost races in a row mean something else.
FENCE_TRIES = 20


def announced(store: ObjectStore, shard: str) -> tuple[Heads | None, str | None]:
    """A shard's heads and their etag; None twice when there are none.

    Raises:
        ReplicationError: the store failed, or they cannot be read.
    """
    stored = store.get(heads_key(shard))
    if not isinstance(stored, Stored):
        return None, None
    return documents.decode(stored.body), stored.etag


def fence(store: ObjectStore, shard: str, tenure: Tenure) -> Heads | None:
    """Write our ownership into the heads; from then on no earlier owner can publish.

    Returns:
        The heads as the last owner left them; None when there were none.

    Raises:
        ReplicationError: the store failed, or a later owner was here before us.
    """
    for _ in range(FENCE_TRIES):
        known, etag = announced(store, shard)
        if known is not None and known.term > tenure.term:
            raise ReplicationError(f"shard {shard} has a later owner")
        base = known or Heads(shard, 0, int(time.time() * 1_000), {})
        ours = dataclasses.replace(base, term=tenure.term, owner=tenure.owner)
        body = documents.encode(ours)
        if store.put_if(heads_key(shard), body, known_etag=etag) is not None:
            return known
    raise ReplicationError(f"the heads of shard {shard} kept changing under {FENCE_TRIES} writes")


class FencedHeads:
    """One owner's view of the object. One caller at a time; `lost` fits any thread.

    Attributes:
        lost: another owner has written it; every call raises from then on.
    """

    def __init__(self, store: ObjectStore, shard: str, tenure: Tenure) -> None:
        """Prepare; `read` comes before the first `write`."""
        self.lost = False
        self._store = store
        self._shard = shard
        self._tenure = tenure
        self._etag: str | None = None

    def check(self) -> None:
        """Pass unless the shard is known to be lost.

        Raises:
            Unavailable: it is.
        """
        if self.lost:
            raise lost_shard("another owner has written its heads")

    def read(self) -> Heads | None:
        """The object, to go on from.

        Raises:
            Unavailable: another owner wrote it.
            ReplicationError: the store failed.
        """
        known, etag = announced(self._store, self._shard)
        found = UNFENCED if known is None else Tenure(known.term, known.owner)
        self.lost = self.lost or found != self._tenure
        self.check()
        self._etag = etag
        return known

    def write(self, document: Heads) -> None:
        """Put a document over the one that was read or written last, and over nothing else.

        Raises:
            Unavailable: another owner wrote meanwhile.
            ReplicationError: the store failed, or a write that seemed to fail had arrived; the
                next one may succeed.
        """
        ours = dataclasses.replace(document, term=self._tenure.term, owner=self._tenure.owner)
        body = documents.encode(ours)
        with spans.part("publish", shard=self._shard):
            etag = self._store.put_if(heads_key(self._shard), body, known_etag=self._etag)
        if etag is None:
            self.read()
            raise ReplicationError("the heads are not as they were left; looked at them again")
        self._etag = etag
