"""What a file held at an earlier moment, as far as the object store still has it.

Every state of a file is what one LTX file left (`plan`): close to now there is one a sync, further
back only those that compaction kept. A state's moment is `committed_at` in the file itself, the
last batch that it holds. The times in LTX headers are those of the syncs, later than the commits
they carry, so they only say where to begin looking; the file itself decides.

Epochs follow each other: a newer one began with a state of an older one. What an owner that had
lost its shard still wrote into an older epoch came after that, so it is later than any moment that
is looked for there.
"""

from __future__ import annotations

import bisect
import dataclasses
import secrets
from collections.abc import Iterable
from pathlib import Path

from service.errors import NotFound, ReplicationError
from service.replica import apply, fetch, ltx, plan
from service.replica.counters import Counters
from service.replica.names import epoch_of_key, file_prefix
from service.replica.plan import LtxName
from service.replica.stamps import Stamps, read_stamps
from service.replica.store import ObjectStore

#: Objects may vanish (compaction, retention) while we work; so often we list anew.
LISTINGS = 4


class _Vanished(ReplicationError):
    """An object of the plan is gone."""


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """A state that was rebuilt.

    Attributes:
        path: the file; the caller's.
        epoch: which epoch it is of.
        txid: its transaction there.
        stamps: its version and the moment of its last batch, as that batch left them.
    """

    path: Path
    epoch: int
    txid: int
    stamps: Stamps


def reachable(names: Iterable[LtxName]) -> list[int]:
    """The transactions at which a file can be rebuilt exactly, ascending.

    A file may be applied to any state from `min - 1` to `max - 1`, see `plan`.
    """
    states = [0]
    for name in sorted(names, key=lambda n: (n.max_txid, n.min_txid)):
        at = bisect.bisect_left(states, name.min_txid - 1)
        known = at < len(states) and states[at] < name.max_txid
        if known and states[-1] != name.max_txid:
            states.append(name.max_txid)
    return states[1:]


def rebuild_at(
    store: ObjectStore, file: str, at_ms: int, folder: Path, *, created_at: int
) -> Moment:
    """Rebuild the latest state whose last batch was committed at or before a moment.

    Args:
        store: where its objects lie.
        file: its name.
        at_ms: the moment, Unix ms, by the clock of the writer.
        folder: where the file is put, under a name of its own.
        created_at: the moment of a state that has no batch yet, Unix ms.

    Raises:
        NotFound: the history does not go back so far; it says how far it goes.
        ReplicationError: the store failed, or its objects are damaged.
    """
    for _ in range(LISTINGS):
        search = _Search(store, file, at_ms, folder, created_at)
        try:
            return search.run()
        except _Vanished:
            continue
        finally:
            search.clear()
    raise ReplicationError(f"the objects of {file} change too fast to rebuild it")


class _Search:
    """One look at the listed objects; what it rebuilt and did not give away, `clear` removes."""

    def __init__(
        self, store: ObjectStore, file: str, at_ms: int, folder: Path, created_at: int
    ) -> None:
        self._store = store
        self._file = file
        self._at_ms = at_ms
        self._folder = folder
        self._created_at = created_at
        self._drafts: set[Path] = set()

    def run(self) -> Moment:
        epochs: dict[int, list[LtxName]] = {}
        for item in self._store.list(file_prefix(self._file)):
            name, epoch = plan.parse(item.key, item.size), epoch_of_key(item.key)
            if name is not None and epoch is not None:
                epochs.setdefault(epoch, []).append(name)
        earliest: int | None = None
        for epoch, names in sorted(epochs.items(), reverse=True):
            found, first = self._in_epoch(epoch, names)
            if found is not None:
                self._drafts.discard(found.path)
                return found
            earliest = first if first is not None else earliest
        if earliest is None:
            raise NotFound("the object store holds nothing of this tenant")
        raise NotFound(
            f"the history begins at {earliest}",
            hint="Ask for that moment (ms since 1970) or a later one.",
        )

    def clear(self) -> None:
        for path in self._drafts:
            _remove(path)

    def _in_epoch(self, epoch: int, names: list[LtxName]) -> tuple[Moment | None, int | None]:
        """The state looked for, or the moment of the epoch's first one.

        Begins where the header times say and goes on with growing steps, until it has one state
        that is early enough and one that is not; then it halves what is between them.
        """
        states = reachable(names)
        low, high = -1, len(states)
        best: Moment | None = None
        first: int | None = None
        at, step = self._guess(states, names), 1
        while high - low > 1:
            at = min(max(at, low + 1), high - 1)
            found = self._rebuilt(epoch, states[at], names)
            moment = self._moment(found)
            if moment <= self._at_ms:
                best, low = self._better(best, found), at
            else:
                self._drop(found)
                high, first = at, moment
            if low < 0:
                at = high - step
            elif high == len(states):
                at = low + step
            else:
                at = (low + high) // 2
            step *= 2
        return best, first

    def _guess(self, states: list[int], names: list[LtxName]) -> int:
        """The first state whose sync came after the moment."""
        by_max: dict[int, LtxName] = {}
        for name in names:
            known = by_max.get(name.max_txid)
            if known is None or name.level < known.level:
                by_max[name.max_txid] = name
        return bisect.bisect_right(
            states, self._at_ms, key=lambda txid: self._synced_at(by_max[txid])
        )

    def _synced_at(self, name: LtxName) -> int:
        stream = self._store.open(name.key)
        if stream is None:
            raise _Vanished(f"{name.key} is gone")
        with stream:
            try:
                return ltx.Reader(stream).header.timestamp_ms
            except ReplicationError:
                return 0  # damaged; this is about where to begin looking only

    def _rebuilt(self, epoch: int, txid: int, names: list[LtxName]) -> Moment:
        path = self._folder / f"{self._file}.{secrets.token_hex(6)}.tmp"
        self._drafts.add(path)
        bad: set[str] = set()
        while True:
            usable = [n for n in names if n.max_txid <= txid and n.key not in bad]
            needed = plan.bridge(usable, 0, txid)
            if needed is None:
                raise ReplicationError(f"damaged objects: transaction {txid} cannot be rebuilt")
            with fetch.opened(self._store, needed) as streams:
                if streams is None:
                    raise _Vanished("an object is gone")
                try:
                    apply.write_new(path, streams, replica=False)
                    return Moment(path, epoch, txid, read_stamps(path, check=True))
                except ReplicationError:
                    path.unlink(missing_ok=True)
                    if not (found := fetch.damaged(needed, streams, Counters())):
                        raise
                    bad |= found
                except OSError as error:
                    raise ReplicationError(f"no room to rebuild: {error.strerror}") from error

    def _moment(self, found: Moment) -> int:
        return found.stamps.committed_at or self._created_at

    def _better(self, old: Moment | None, new: Moment) -> Moment:
        if old is not None:
            self._drop(old)
        return new

    def _drop(self, found: Moment) -> None:
        _remove(found.path)
        self._drafts.discard(found.path)


def _remove(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
