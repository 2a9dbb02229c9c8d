"""What a publication is made of: one file's upload, and the lock of the one who publishes."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from service.errors import IndexFileError, ReplicationError
from service.replica import names
from service.replica.heads import Head
from service.replica.litestream import LitestreamClient
from service.replica.stamps import read_stamps

SYNC_TIMEOUT_MS = 5_000
LOCK_POLL_MS = 50


def upload(litestream: LitestreamClient, file: str, path: Path) -> Head:
    """Have all of a file stored; what can be announced of it then.

    Raises:
        ReplicationError: Litestream did not store it.
        IndexFileError: the file cannot be read.
    """
    stamps = read_stamps(path)
    position = litestream.sync(path, SYNC_TIMEOUT_MS)
    if position.replicated_txid == 0 or position.replicated_txid < position.txid:
        raise ReplicationError(f"litestream has not stored all of {file}")
    return Head(
        epoch=int(path.stem),
        txid=position.replicated_txid,
        version=stamps.version,
        committed_at=stamps.committed_at,
    )


def as_announced(data: Path, file: str, head: Head | None) -> bool:
    """Whether the local file is what a head says."""
    epoch = names.latest_epoch(data, file)
    if head is None or epoch != head.epoch:
        return False
    try:
        return read_stamps(names.writer_path(data, file, epoch)).version == head.version
    except IndexFileError:
        return False  # created a moment ago; its upload finds out


def with_lags(
    heads: Mapping[str, Head], behind: Mapping[str, float], now: float
) -> dict[str, Head]:
    """Heads that say how long commits wait: `behind` has since when, in seconds like `now`."""
    return {
        file: dataclasses.replace(
            head, lag_ms=max(1, int((now - behind[file]) * 1_000)) if file in behind else 0
        )
        for file, head in heads.items()
    }


@contextlib.contextmanager
def only_one(data: Path, stopping: Callable[[], bool]) -> Iterator[bool]:
    """Hold the shard's publication lock: a reload overlaps two processes for a while."""
    path = data / "writer" / "publisher.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        while not stopping():
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                yield True
                return
            time.sleep(LOCK_POLL_MS / 1_000)
        yield False
