"""Bringing one replica to its head: in place when LTX files bridge, from a snapshot when not."""

from __future__ import annotations

import dataclasses
import errno
import logging
import secrets
import time
from pathlib import Path

import apsw

from service.errors import IndexFileError, MemlaneError, NotFound, ReplicationError, Unavailable
from service.replica import apply, checks, fetch, plan
from service.replica.counters import Counters
from service.replica.freshness import satisfies
from service.replica.heads import Head
from service.replica.node import Node, Replica
from service.replica.plan import LtxName
from service.replica.quarantine import Quarantine
from service.replica.stamps import read_stamps
from service.replica.store import ObjectStore

#: Objects may vanish (retention) or prove damaged while we work; so often we plan anew.
PLANS = 4
#: What the system calls a full disk: no space, over quota, over the process's limit.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_log = logging.getLogger(__name__)


class _BridgeError(MemlaneError):
    """The files that are left do not lead on from where the replica is."""


class CatchUp:
    """Applies LTX files to one node's replicas; one call a file at a time.

    Counters: seeds, seed_ms, applies, applied_files, reseeds and its causes reseed_epoch,
    reseed_dirty, reseed_gap, reseed_damaged, reseed_diverged, reseed_frozen; damaged_ltx,
    lock_timeouts, disk_full.
    """

    def __init__(
        self,
        store: ObjectStore,
        node: Node,
        counters: Counters,
        quarantine: Quarantine,
        *,
        check_inline_bytes: int,
    ) -> None:
        self._store = store
        self._node = node
        self._counters = counters
        self._quarantine = quarantine
        self._check_inline_bytes = check_inline_bytes

    def run(
        self,
        file: str,
        head: Head,
        as_of_ms: float,
        replica: Replica | None,
        *,
        frozen: bool = False,
        check_all: bool = False,
    ) -> Replica:
        """Bring a file to `head`, which vouches for everything up to `as_of_ms`.

        Args:
            file: its name.
            head: what it is brought to.
            as_of_ms: monotonic ms.
            replica: what is here.
            frozen: what is here did not come forward for too long: make it anew.
            check_all: check a file made anew in full before its first use, whatever its size.

        Returns:
            The replica's new state, registered already.

        Raises:
            Unavailable: queries hold the replica, or the disk is full; nothing changed.
            ReplicationError: the store does not have what it takes, or it is damaged.
            IndexFileError: what it has is not a sound file of ours.
        """
        try:
            cause = None if replica is None else self._outdated(replica, head, frozen)
            if replica is not None and cause is None:
                if satisfies(replica.epoch, replica.txid, replica.version, head):
                    return replica
                try:
                    return self._advance(replica, head, as_of_ms)
                except _BridgeError as error:
                    cause = error.detail
                except (IndexFileError, ReplicationError, NotFound, apsw.Error) as error:
                    _log.warning("%s cannot be advanced: %s", file, error)
                    cause = "damaged"
            if cause is not None:
                self._counters.add("reseeds")
                self._counters.add(f"reseed_{cause}")
            return self._seed(file, head, as_of_ms, replica, check_all)
        except apply.DiskFullError:
            self._counters.add("disk_full")
            raise
        except Unavailable:
            self._counters.add("lock_timeouts")
            raise

    @staticmethod
    def _outdated(replica: Replica, head: Head, frozen: bool) -> str | None:
        """Why a replica must be made anew without trying to advance it."""
        if replica.dirty:
            return "dirty"
        if replica.epoch != head.epoch:
            return "epoch"
        return "frozen" if frozen else None

    # --- in place

    def _advance(self, replica: Replica, head: Head, as_of_ms: float) -> Replica:
        if replica.txid >= head.txid:
            raise _BridgeError("diverged")  # an older version under the same transactions
        bad: set[str] = set()
        names = fetch.direct(self._store, replica.file, head.epoch, replica.txid, head.txid)
        for _ in range(PLANS):
            if names is None:
                known = fetch.listed(self._store, replica.file, head.epoch)
                usable = [name for name in known if name.key not in bad]
                names = plan.bridge(usable, replica.txid, head.txid)
                # A snapshot over a live replica would keep queries out; a new file does not.
                if names is None or names[0].min_txid == 1:
                    raise _BridgeError("damaged" if bad else "gap")
            for group in fetch.groups(names):
                after = self._apply(replica, group, head, as_of_ms, bad)
                if after is None:
                    names = None
                    break
                replica = after
            else:
                return self._stamped(replica, head)
        raise _BridgeError("gap")

    def _apply(
        self,
        replica: Replica,
        group: list[LtxName],
        head: Head,
        as_of_ms: float,
        bad: set[str],
    ) -> Replica | None:
        """Apply one group under one lock; None when a new plan is needed."""
        with fetch.opened(self._store, group) as streams:
            if streams is None:
                return None
            if found := fetch.damaged(group, streams, self._counters):
                bad |= found
                return None
            with apply.exclusive(Path(replica.path)) as handle:
                apply.reserve(handle, apply.size_after(streams))
                self._node.mark_dirty(replica.file)
                txid, size = apply.write_pages(handle, streams, replica.txid)
                reached = txid >= head.txid
                replica = dataclasses.replace(
                    replica,
                    txid=txid,
                    bytes=size,
                    as_of_ms=max(replica.as_of_ms, as_of_ms) if reached else replica.as_of_ms,
                )
                # Clean again before the lock goes: nobody ever sees the mark of a live follower.
                self._node.put_replica(replica)
        self._counters.add("applies")
        self._counters.add("applied_files", len(group))
        return replica

    def _stamped(self, replica: Replica, head: Head) -> Replica:
        stamps = read_stamps(Path(replica.path))
        if stamps.version < head.version:
            raise _BridgeError("diverged")
        replica = dataclasses.replace(
            replica, version=stamps.version, committed_at=stamps.committed_at
        )
        self._node.put_replica(replica)
        return replica

    # --- from a snapshot

    def _seed(
        self, file: str, head: Head, as_of_ms: float, old: Replica | None, check_all: bool
    ) -> Replica:
        began = time.monotonic()
        draft = self._node.files / f"{file}.{secrets.token_hex(6)}.tmp"
        try:
            replica = self._restored(file, head, as_of_ms, draft, check_all)
            self._place(draft, replica)
        except checks.BadFileError as error:
            self._quarantine.take(draft, error.cause)
            raise
        except (OSError, apsw.FullError) as error:
            if isinstance(error, OSError) and error.errno not in NO_ROOM:
                raise ReplicationError(f"{file} is not restored: {error.strerror}") from error
            raise apply.DiskFullError("the reader's disk is full", retry_after_s=5) from error
        finally:
            draft.unlink(missing_ok=True)
        if old is not None:
            Path(old.path).unlink(missing_ok=True)
        self._counters.add("seeds")
        self._counters.add("seed_ms", int((time.monotonic() - began) * 1_000))
        return replica

    def _restored(
        self, file: str, head: Head, as_of_ms: float, draft: Path, check_all: bool
    ) -> Replica:
        """Restore into `draft` and check it; the replica that it will be."""
        txid = restore(self._store, file, head.epoch, head.txid, draft, self._counters)
        stamps = checks.check_schema(draft)
        if stamps.version < head.version:
            raise ReplicationError(
                f"{file} restored to version {stamps.version}, announced is {head.version}"
            )
        size = draft.stat().st_size
        inline = check_all or size <= self._check_inline_bytes
        if inline:
            checks.check_pages(draft)
        return Replica(
            file=file,
            path=str(self._node.next_path(file, head.epoch)),
            epoch=head.epoch,
            txid=txid,
            version=stamps.version,
            committed_at=stamps.committed_at,
            as_of_ms=as_of_ms,
            bytes=size,
            checked=inline,
        )

    def _place(self, draft: Path, replica: Replica) -> None:
        """Give a checked draft its name and register it, or leave nothing behind."""
        path = Path(replica.path)
        draft.rename(path)
        try:
            self._node.put_replica(replica)
        except BaseException:
            path.unlink(missing_ok=True)
            raise


def restore(
    store: ObjectStore,
    file: str,
    epoch: int,
    txid: int,
    path: Path,
    counters: Counters,
    *,
    replica: bool = True,
) -> int:
    """Rebuild a file at `path` from the store, at `txid` or later, planning around damage.

    Returns:
        The transaction it holds.

    Raises:
        ReplicationError: the store does not have what it takes.
    """
    bad: set[str] = set()
    for _ in range(PLANS):
        known = [name for name in fetch.listed(store, file, epoch) if name.key not in bad]
        names = plan.bridge(known, 0, txid)
        if names is None:
            raise ReplicationError(
                f"the store cannot rebuild {file} epoch {epoch} at transaction {txid}"
                + (f"; {len(bad)} objects are damaged" if bad else "")
            )
        with fetch.opened(store, names) as streams:
            if streams is None:
                continue
            try:
                return apply.write_new(path, streams, replica=replica)
            except ReplicationError:
                path.unlink(missing_ok=True)
                found = fetch.damaged(names, streams, counters)
                if not found:
                    raise
                bad |= found
    raise ReplicationError(f"the objects of {file} epoch {epoch} change too fast to restore it")
