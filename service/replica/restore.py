"""A writer's boot: never let a missing, old or foreign local file become the new truth.

Order: take the folder's lock and the shard's lease, `prepare`, start Litestream and wait until it
watches every file, only then accept writes. `prepare` fences first: from then on the shard's former
owner can announce nothing, so what the heads say is all that was ever acknowledged as replicated.

* A file that is missing here and announced, or that is behind what was announced, is rebuilt from
  the store under a new epoch: its old prefix stays as it was. A local epoch older than the
  announced one is behind whatever its version: another owner went on from there.
* When the shard's last owner was not this folder, its Litestream may still be running somewhere. So
  every other file moves to a new epoch as well, and files that were never announced are set aside.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import secrets
import shutil
import time
from pathlib import Path

from service.errors import IndexFileError, ReplicationError
from service.replica import fetch, names, plan
from service.replica.catchup import restore
from service.replica.counters import Counters
from service.replica.fencing import announced, fence
from service.replica.heads import Head, Heads
from service.replica.locks import FolderLock
from service.replica.stamps import read_stamps
from service.replica.store import ObjectStore
from service.replica.tenure import UNFENCED, Tenure, folder_of, note_term, read_note

#: Beside a database file: SQLite makes `-shm` anew, the log it must not lose.
_WAL, _SHM = "-wal", "-shm"
#: Old local files that were replaced stay here for so long; a deleted tenant's may be among them.
ASIDE = "set-aside"
ASIDE_S = 7 * 86_400

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Restored:
    """One file that was rebuilt: from and to which epoch, and the version it has."""

    file: str
    from_epoch: int
    epoch: int
    version: int


def lock_writer(data: Path) -> FolderLock:
    """Take a writer's data folder for this process, until closed or dead.

    Raises:
        SetupError: another writer has it.
    """
    return FolderLock(data / "writer" / "writer.lock", what="a writer's data")


def prepare(
    data: Path, store: ObjectStore, *, shard: str, tenure: Tenure = UNFENCED
) -> list[Restored]:
    """Make the heads ours, and bring every file of the folder to what they announce.

    Raises:
        ReplicationError: the store cannot be read, or lacks what it announced, or the shard was
            lost meanwhile. The writer must not start then.
        SetupError: the folder cannot be written.
    """
    data = data.absolute()
    known = fence(store, shard, tenure) if tenure != UNFENCED else announced(store, shard)[0]
    ours = tenure == UNFENCED or _last_was_this_folder(data, known, tenure)
    _purge_aside(data)
    for file in names.local_files(data):
        _drop_older(data, file)
        if not ours and (known is None or file not in known.tenants):
            set_aside(data, file, names.latest_epoch(data, file) or 0)
            _log.error("%s was never announced and is set aside", file)
    done = []
    for file, head in known.tenants.items() if known else ():
        epoch = names.latest_epoch(data, file)
        if head.moved_to:
            # Another shard goes on with it: here it is never written again, whatever else happens.
            if epoch is not None:
                set_aside(data, file, epoch)
            continue
        if epoch is None or not _up_to_date(names.writer_path(data, file, epoch), epoch, head):
            done.append(_rebuild(data, store, file, head, epoch, tenure.term))
        elif not ours:
            _move(data, file, epoch, names.next_epoch(tenure.term, epoch))
    if tenure != UNFENCED:
        note_term(data, tenure)
    return done


def _last_was_this_folder(data: Path, known: Heads | None, tenure: Tenure) -> bool:
    """Whether nobody but this folder can have a Litestream on the announced epochs.

    Every owner writes its name into the heads before it starts one. An earlier start of ours that
    did not finish `prepare` is not good enough: some files may not have been moved yet.
    """
    if known is None or known.term == 0:
        return True  # a new shard, or one from before there were leases
    folder = folder_of(tenure.owner)
    return folder_of(known.owner) == folder and known.term == read_note(data).term


def _up_to_date(path: Path, epoch: int, head: Head) -> bool:
    try:
        return epoch >= head.epoch and read_stamps(path).version >= head.version
    except IndexFileError as error:
        _log.error("%s/%s cannot be used: %s", path.parent.name, path.name, error)
        return False


def _rebuild(
    data: Path, store: ObjectStore, file: str, head: Head, local: int | None, term: int
) -> Restored:
    epoch = names.next_epoch(term, head.epoch, local or 0)
    path = names.writer_path(data, file, epoch)
    # Litestream watches `*.db` only; the name appears when the file is whole.
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Everything the store has, not only what was announced: it may be one upload ahead.
        known = fetch.listed(store, file, head.epoch)
        target = max(head.txid, plan.furthest(known))
        restore(store, file, head.epoch, target, draft, Counters(), replica=False)
        stamps = read_stamps(draft, check=True)
        if stamps.version < head.version:
            raise ReplicationError(
                f"{file}: the store has version {stamps.version}, it announced {head.version}"
            )
        for suffix in (_WAL, _SHM):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
        if local is not None:
            set_aside(data, file, local)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    _log.warning("%s rebuilt from the store: epoch %d, version %d", file, epoch, stamps.version)
    return Restored(file, head.epoch, epoch, stamps.version)


def _move(data: Path, file: str, epoch: int, to: int) -> None:
    """Give a file that nobody has open another epoch, its log included, whole at every moment.

    The new name appears last. A crash before leaves the old file as it was, one after it leaves
    two names of one file, of which `_drop_older` removes the old.
    """
    old, new = names.writer_path(data, file, epoch), names.writer_path(data, file, to)
    for suffix in (_WAL, ""):
        part, other = old.with_name(old.name + suffix), new.with_name(new.name + suffix)
        other.unlink(missing_ok=True)
        if part.exists():
            os.link(part, other)
    _drop_older(data, file)


def _drop_older(data: Path, file: str) -> None:
    """Remove what is left of a file's older epochs, Litestream's notes of them included."""
    latest = names.latest_epoch(data, file)
    if latest is None:
        return
    kept = names.writer_path(data, file, latest)
    for path in kept.parent.glob("*.db"):
        if path != kept:
            for suffix in ("", _WAL, _SHM):
                path.with_name(path.name + suffix).unlink(missing_ok=True)
            _forget_meta(data, file, path.name)


def _forget_meta(data: Path, file: str, name: str) -> None:
    """Litestream keeps what it uploaded of a file; it never sees this name again."""
    meta = data / "writer" / "litestream-meta" / file / f"{name}-litestream"
    shutil.rmtree(meta, ignore_errors=True)


def set_aside(data: Path, file: str, epoch: int) -> None:
    """Move an old local file out of Litestream's sight; an operator may look at it for a while."""
    old = names.writer_path(data, file, epoch)
    _forget_meta(data, file, old.name)
    folder = data / "writer" / ASIDE / f"{file}-{epoch:08d}-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    for suffix in ("", _WAL, _SHM):
        part = old.with_name(old.name + suffix)
        if part.exists():
            shutil.move(part, folder / part.name)


def _purge_aside(data: Path) -> None:
    folder = data / "writer" / ASIDE
    for path in folder.iterdir() if folder.is_dir() else ():
        if time.time() - path.stat().st_mtime > ASIDE_S:
            shutil.rmtree(path, ignore_errors=True)
