"""The lease of a shard: one object that says who writes it, changed by conditional writes alone.

    leases/<shard>.json  {"owner": "<folder>/<process>", "host": "a", "term": 7, "renewals": 12,
                          "acquired_at": 1796080393477, "expires_in_ms": 10000, "released": false}

**Who may take it.** Anybody, at once, when it is absent, released, or was this data folder's own:
the folder's lock proves that its former process is dead. Else only who has watched the very same
object for all of its `expires_in_ms` by his own clock. Nobody trusts another's wall clock;
`acquired_at` is for people.

**Who has it.** The holder believes in it until `expires_in_ms` after the start of its last
successful renewal, less a margin of a tenth. The object was written after that start, so whoever
takes it over has seen it later still, and waited longer: two holders never believe at once, as
long as two clocks differ in rate by less than the margin. The clock counts the time a machine
sleeps (`CLOCK_BOOTTIME`), so a paused holder wakes up without the lease.

A holder that could not renew in time has not lost it yet: it stops acknowledging, and goes on
when a renewal succeeds after all, for then nobody else had it meanwhile.

`term` grows with every acquisition. It goes into the heads document (see `publish`) and into the
epoch of the files (see `names`), which fence what a lease alone cannot: a write that was sent
before a pause and arrives after it.
"""

from __future__ import annotations

import dataclasses
import socket
import time
from collections.abc import Callable

import orjson

from service.errors import ReplicationError
from service.replica import heads as documents
from service.replica.counters import Counters
from service.replica.names import heads_key, lease_key
from service.replica.store import ObjectStore, Stored
from service.replica.tenure import Tenure, folder_of

#: One part in so many of a lease is not used: what two machines' clocks may differ in rate.
MARGIN_PART = 10


def boottime_ms() -> float:
    """Milliseconds since this machine booted, sleep included; the same in all its processes."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) / 1e6


@dataclasses.dataclass(frozen=True, slots=True)
class LeaseDocument:
    """The object's content; see the module's description."""

    owner: str
    host: str
    term: int
    renewals: int
    acquired_at: int
    expires_in_ms: int
    released: bool


class Lease:
    """One contender for one shard. Not thread-safe: one caller at a time.

    Attributes:
        counters: the one given.
        holder: the lease as last seen; None before the first look and when it is absent.
    """

    def __init__(
        self,
        store: ObjectStore,
        *,
        shard: str,
        owner: str,
        lease_ms: int,
        counters: Counters,
        clock_ms: Callable[[], float] = boottime_ms,
    ) -> None:
        """Prepare; nothing is read or written yet.

        Args:
            store: where the lease lies.
            shard: what it is for.
            owner: this contender's name, see `tenure`.
            lease_ms: how long it lasts beyond a renewal.
            counters: of the process that contends; takeovers (from an owner that had not
                released), failed_renewals, lease_lost.
            clock_ms: monotonic, never stopping.
        """
        self.counters = counters
        self.holder: LeaseDocument | None = None
        self._store = store
        self._shard = shard
        self._key = lease_key(shard)
        self._owner = owner
        self._lease_ms = lease_ms
        self._clock_ms = clock_ms
        self._held: tuple[LeaseDocument, str] | None = None
        self._deadline_ms = 0.0
        self._watched: tuple[str, float] | None = None

    @property
    def deadline_ms(self) -> float:
        """Until when, by the clock given, this contender is the owner; 0 when it is not."""
        return self._deadline_ms

    @property
    def valid(self) -> bool:
        """Is this contender the owner now, for sure?"""
        return self._clock_ms() < self._deadline_ms

    def acquire(self) -> Tenure | None:
        """Look at the lease once, and take it if that is allowed; call this again and again.

        Raises:
            ReplicationError: the store failed, or the lease cannot be read.
        """
        stored = self._store.get(self._key)
        found: LeaseDocument | None = None
        etag: str | None = None
        if isinstance(stored, Stored):
            found, etag = _decode(stored.body), stored.etag
            if not self._free(found, etag):
                self.holder = found
                return None
        self.holder = found
        term = 1 + max(0 if found is None else found.term, self._announced_term())
        document = LeaseDocument(
            owner=self._owner,
            host=socket.gethostname(),
            term=term,
            renewals=0,
            acquired_at=int(time.time() * 1_000),
            expires_in_ms=self._lease_ms,
            released=False,
        )
        if not self._write(document, etag):
            return None
        self._watched = None
        if found is not None and not found.released and not self._of_this_folder(found):
            self.counters.add("takeovers")
        return Tenure(term, self._owner)

    def renew(self) -> bool:
        """Hold the lease for another `lease_ms`; False when somebody else has it.

        Raises:
            ReplicationError: the store failed. It is not known whether the renewal arrived; the
                lease runs on to its deadline.
        """
        if self._held is None:
            return False
        document, etag = self._held
        try:
            done = self._write(_renewed(document), etag)
            if not done and (adopted := self._adopted(document)):
                # A renewal that seemed to fail had arrived. Only a new one counts.
                document, etag = adopted
                done = self._write(_renewed(document), etag)
        except ReplicationError:
            self.counters.add("failed_renewals")
            raise
        if not done:
            self.counters.add("lease_lost")
            self._held, self._deadline_ms = None, 0.0
        return done

    def release(self) -> None:
        """Give it away, so that a successor need not wait. All writing must have ended.

        Raises:
            ReplicationError: the store failed; the lease then simply runs out.
        """
        held, self._held, self._deadline_ms = self._held, None, 0.0
        if held is not None:
            document = dataclasses.replace(held[0], released=True)
            self._store.put_if(self._key, orjson.dumps(document), known_etag=held[1])

    # --- inside

    def _free(self, found: LeaseDocument, etag: str) -> bool:
        if found.released or self._of_this_folder(found):
            return True
        now = self._clock_ms()
        if self._watched is None or self._watched[0] != etag:
            self._watched = (etag, now)
        return now - self._watched[1] >= found.expires_in_ms

    def _of_this_folder(self, found: LeaseDocument) -> bool:
        return folder_of(found.owner) == folder_of(self._owner)

    def _announced_term(self) -> int:
        """The heads' term: no later one may be lower, even if the lease object was removed."""
        stored = self._store.get(heads_key(self._shard))
        return documents.decode(stored.body).term if isinstance(stored, Stored) else 0

    def _write(self, document: LeaseDocument, known_etag: str | None) -> bool:
        began_ms = self._clock_ms()
        etag = self._store.put_if(self._key, orjson.dumps(document), known_etag=known_etag)
        if etag is None:
            return False
        self._held = (document, etag)
        self._deadline_ms = began_ms + self._lease_ms * (1 - 1 / MARGIN_PART)
        return True

    def _adopted(self, document: LeaseDocument) -> tuple[LeaseDocument, str] | None:
        """The object, if it is our own of this term."""
        stored = self._store.get(self._key)
        if not isinstance(stored, Stored):
            return None
        self.holder = found = _decode(stored.body)
        ours = (found.owner, found.term) == (document.owner, document.term)
        return (found, stored.etag) if ours and not found.released else None


def _renewed(document: LeaseDocument) -> LeaseDocument:
    """The next one, never equal to an earlier one: some stores make the etag of the content."""
    return dataclasses.replace(document, renewals=document.renewals + 1)


def _decode(body: bytes) -> LeaseDocument:
    try:
        raw = orjson.loads(body)
        document = LeaseDocument(
            **{field.name: raw[field.name] for field in dataclasses.fields(LeaseDocument)}
        )
        numbers = (document.term, document.renewals, document.expires_in_ms)
        if not isinstance(document.owner, str) or any(type(n) is not int for n in numbers):
            raise TypeError
    except (orjson.JSONDecodeError, KeyError, TypeError) as error:
        raise ReplicationError("the lease cannot be read") from error
    return document
