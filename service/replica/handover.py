"""A file goes from one shard to another, through the object store.

1. The source seals it: with batches held up and the last commit announced, its head says
   `moved_to`. From then on nobody writes that epoch, no later owner of the source either.
2. The target restores exactly that, under an epoch of its own, and announces it.
3. Once the registry names the target, the source lets go of it.

At every moment some heads announce the file, and of two the higher epoch counts.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from service.errors import ReplicationError
from service.replica import names
from service.replica.catchup import restore
from service.replica.counters import Counters
from service.replica.fencing import announced
from service.replica.heads import Head
from service.replica.shards import shard_of
from service.replica.stamps import read_stamps
from service.replica.store import ObjectStore


def head_of(store: ObjectStore, shard: str, file: str) -> Head | None:
    """What a shard announces of a file; None when it does not.

    Raises:
        ReplicationError: the store failed, or the heads cannot be read.
    """
    known, _ = announced(store, shard)
    return None if known is None else known.tenants.get(file)


def announced_anywhere(store: ObjectStore, file: str) -> bool:
    """Whether any shard announces a file.

    Twice: a file that goes over between two looks of one round is found in the second.

    Raises:
        ReplicationError: the store failed, or some heads cannot be read.
    """
    for _ in range(2):
        found = [shard for item in store.list("heads/") if (shard := shard_of(item.key))]
        if any(head_of(store, shard, file) is not None for shard in found):
            return True
    return False


def adopt(data: Path, store: ObjectStore, file: str, head: Head, term: int) -> int:
    """Restore a file that another shard sealed, under an epoch of our own; again: nothing is done.

    Args:
        data: the target writer's folder.
        store: where it lies.
        file: its name.
        head: the sealed head.
        term: of our ownership.

    Returns:
        The version it has.

    Raises:
        ReplicationError: the store failed, or lacks what was announced.
    """
    local = names.latest_epoch(data, file)
    if local is not None and local > head.epoch:
        return read_stamps(names.writer_path(data, file, local)).version
    path = names.writer_path(data, file, names.adopted_epoch(term, head.epoch))
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        restore(store, file, head.epoch, head.txid, draft, Counters(), replica=False)
        stamps = read_stamps(draft, check=True)
        if stamps.version < head.version:
            raise ReplicationError(
                f"{file}: the store has version {stamps.version}, {head.version} was sealed"
            )
        for suffix in ("-wal", "-shm"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)
        with draft.open("rb") as stream:
            os.fsync(stream.fileno())
        draft.rename(path)  # Litestream watches `*.db` only
    finally:
        draft.unlink(missing_ok=True)
    return stamps.version
