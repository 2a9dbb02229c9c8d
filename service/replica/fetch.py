"""Getting LTX files out of the store: direct by name when few are missing, planned otherwise."""

from __future__ import annotations

import concurrent.futures
import contextlib
from collections.abc import Iterator
from typing import BinaryIO

from service.errors import ReplicationError
from service.replica import ltx, plan
from service.replica.counters import Counters
from service.replica.names import replica_prefix
from service.replica.plan import LtxName
from service.replica.store import ObjectStore

#: Up to so many new level-0 files are fetched by their predictable names; more are listed first.
DIRECT_FILES = 32
#: An object opens in a round trip to the store, and many small ones make up a cold tenant.
OPENED_AT_ONCE = 8
#: How much compressed data one exclusive lock of a replica may cover, unless one file is larger.
GROUP_BYTES = 32 * 1024 * 1024


def listed(store: ObjectStore, file: str, epoch: int) -> list[LtxName]:
    """All LTX files of one epoch of a file."""
    prefix = replica_prefix(file, epoch)
    found = (plan.parse(item.key, item.size) for item in store.list(prefix))
    return [name for name in found if name is not None]


@contextlib.contextmanager
def opened(store: ObjectStore, names: list[LtxName]) -> Iterator[list[BinaryIO] | None]:
    """Open all of these objects, several at once, or None when one has vanished."""
    with contextlib.ExitStack() as stack:
        found = _opened(store, [name.key for name in names], stack)
        streams = [stream for stream in found if stream is not None]
        yield streams if len(streams) == len(names) else None


def _opened(
    store: ObjectStore, keys: list[str], stack: contextlib.ExitStack
) -> list[BinaryIO | None]:
    """Open objects in order; each that opens is closed by `stack`, whatever becomes of others."""

    def one(key: str) -> BinaryIO | None:
        if (stream := store.open(key)) is not None:
            stack.callback(stream.close)
        return stream

    if len(keys) <= 1:
        return [one(key) for key in keys]
    with concurrent.futures.ThreadPoolExecutor(min(OPENED_AT_ONCE, len(keys)), "open") as pool:
        return list(pool.map(one, keys))


def direct(store: ObjectStore, file: str, epoch: int, after: int, to: int) -> list[LtxName] | None:
    """The level-0 files from `after` to `to`, unseen; None when they are too many to guess."""
    if to - after > DIRECT_FILES:
        return None
    folder = replica_prefix(file, epoch) + store.level_format.format(level=0)
    return [
        LtxName(folder + plan.file_name(txid, txid), 0, txid, txid, 0)
        for txid in range(after + 1, to + 1)
    ]


def damaged(names: list[LtxName], streams: list[BinaryIO], counters: Counters) -> set[str]:
    """Verify every file in full; the keys of those that must not be applied."""
    bad = set()
    for name, stream in zip(names, streams, strict=True):
        try:
            header = ltx.verify(stream)
            if (header.min_txid, header.max_txid) != (name.min_txid, name.max_txid):
                raise ReplicationError("LTX file under another file's name")
        except ReplicationError:
            counters.add("damaged_ltx")
            bad.add(name.key)
    return bad


def groups(names: list[LtxName]) -> Iterator[list[LtxName]]:
    """Cut a plan into pieces that one lock may cover."""
    group: list[LtxName] = []
    size = 0
    for name in names:
        if group and (size + name.size > GROUP_BYTES or len(group) >= DIRECT_FILES):
            yield group
            group, size = [], 0
        group.append(name)
        size += name.size
    if group:
        yield group
