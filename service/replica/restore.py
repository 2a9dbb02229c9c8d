"""A writer's boot: never let a missing or old local file become the new truth.

Order: take the folder's lock, `prepare`, start Litestream and wait until it watches every file,
only then accept writes. A file that is missing here and announced in the store, or that is behind
what was announced, is rebuilt from the store under the next epoch: its old prefix stays as it was.
"""

from __future__ import annotations

import dataclasses
import logging
import secrets
import shutil
from pathlib import Path

from service.errors import IndexFileError, ReplicationError
from service.replica import fetch, names, plan
from service.replica import heads as documents
from service.replica.catchup import restore
from service.replica.counters import Counters
from service.replica.heads import Head
from service.replica.locks import FolderLock
from service.replica.stamps import read_stamps
from service.replica.store import ObjectStore, Stored

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


def prepare(data: Path, store: ObjectStore, *, shard: str) -> list[Restored]:
    """Compare every announced file with the local one; rebuild what is missing or behind.

    Raises:
        ReplicationError: the store cannot be read, or lacks what it announced. The writer must
            not start then.
    """
    data = data.absolute()
    stored = store.get(names.heads_key(shard))
    if not isinstance(stored, Stored):
        return []
    done = []
    for file, head in documents.decode(stored.body).tenants.items():
        epoch = names.latest_epoch(data, file)
        if epoch is None or not _up_to_date(names.writer_path(data, file, epoch), epoch, head):
            done.append(_rebuild(data, store, file, head, epoch))
    return done


def _up_to_date(path: Path, epoch: int, head: Head) -> bool:
    try:
        return epoch >= head.epoch and read_stamps(path).version >= head.version
    except IndexFileError as error:
        _log.error("%s/%s cannot be used: %s", path.parent.name, path.name, error)
        return False


def _rebuild(data: Path, store: ObjectStore, file: str, head: Head, local: int | None) -> Restored:
    epoch = max(head.epoch, local or 0) + 1
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
        for suffix in ("-wal", "-shm"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
        if local is not None:
            _set_aside(data, file, local)
        draft.rename(path)
    finally:
        draft.unlink(missing_ok=True)
    _log.warning("%s rebuilt from the store: epoch %d, version %d", file, epoch, stamps.version)
    return Restored(file, head.epoch, epoch, stamps.version)


def _set_aside(data: Path, file: str, epoch: int) -> None:
    """Move an old local file out of Litestream's sight; an operator may look at it."""
    old = names.writer_path(data, file, epoch)
    folder = data / "writer" / "set-aside" / f"{file}-{epoch:08d}-{secrets.token_hex(4)}"
    folder.mkdir(parents=True)
    for suffix in ("", "-wal", "-shm"):
        part = old.with_name(old.name + suffix)
        if part.exists():
            shutil.move(part, folder / part.name)
