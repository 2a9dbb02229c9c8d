"""Writing LTX pages into SQLite files: a new file at once, or a live replica under its lock.

A live replica is written through SQLite's own VFS object, with SQLite's own locks and no raw
descriptor. The POSIX locks of a process on a file all go when *any* descriptor of that file closes
in that process; SQLite's VFS knows all of its own descriptors and keeps them open until the locks
are gone, so connections of this process to the same replica stay safe. (A second copy of SQLite in
the process would not know: never open replicas with the standard library's module.)

Replicas are in rollback-journal mode, whatever the writer uses: bytes 18 and 19 of page 1 are 1, so
readers need no `-wal` file and an exclusive lock keeps all of them out. Bytes 24-27 (change
counter) and 92-95 (version-valid-for) of page 1 get a value never used before with every apply:
that is how SQLite's connections notice that their cached pages are old (sqlite.org/fileformat2,
1.3.7).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

import apsw

from service.errors import ReplicationError, Unavailable
from service.replica import ltx

LOCK_RETRY_MS = 1
#: A file grows by so much at a time when room is made for what comes. SQLite's own VFS writes less
#: than 128 KiB at once (`seekAndWriteFd` in os_unix.c) and calls more a full disk.
GROW_BYTES = 64 * 1024
#: Pages gather to writes of about this size.
WRITE_BYTES = 256 * 1024
#: How long an apply waits for running queries to end before it lets new ones in again.
LOCK_WAIT_MS = 2_000

_COUNTER = slice(24, 28)
_VALID_FOR = slice(92, 96)
_JOURNAL_MODE = slice(18, 20)
_ROLLBACK = b"\x01\x01"
_FLAGS = [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB, 0]


class DiskFullError(Unavailable):
    """The cache's disk has no room for this; what was there is as it was."""

    hint_default = "The reader evicts what it can; give its cache more room."


def write_new(path: Path, streams: Sequence[BinaryIO], *, replica: bool) -> int:
    """Write a file nobody has opened yet from a snapshot and the files that follow it.

    Args:
        path: must not exist.
        streams: LTX files in order, the first from transaction 1.
        replica: put it into rollback mode, as readers need it; else leave it as the writer had it.

    Returns:
        The last transaction written.

    Raises:
        ReplicationError: a file is damaged or does not follow the one before; `path` is rubbish.
        OSError: the disk failed or is full; `path` is rubbish.
    """
    txid = 0
    with path.open("xb", buffering=WRITE_BYTES) as out:
        for stream in streams:
            stream.seek(0)
            reader = ltx.Reader(stream)
            header = reader.header
            _follows(header, txid)
            at = -1
            for number, page in reader.pages():
                if number != at:  # a seek writes out the buffer, and most pages just follow
                    out.seek((number - 1) * header.page_size)
                out.write(as_replica(page, 1) if replica and number == 1 else page)
                at = number + 1
            out.truncate(header.commit * header.page_size)
            txid = header.max_txid
    return txid


def size_after(streams: Sequence[BinaryIO]) -> int:
    """How large, in bytes, a file gets while these are applied in order; they are rewound."""
    most = 0
    for stream in streams:
        stream.seek(0)
        header = ltx.Reader(stream).header
        stream.seek(0)
        most = max(most, header.commit * header.page_size)
    return most


def reserve(handle: apsw.VFSFile, size: int) -> None:
    """Make a replica, whose exclusive lock is held, at least this long, before anything changes.

    SQLite goes by the page count in the header, so room at the end is no change to readers.

    Raises:
        DiskFullError: there is no room; nothing was changed.
    """
    before = handle.xFileSize()
    try:
        for at in range(before, size, GROW_BYTES):
            handle.xWrite(bytes(min(GROW_BYTES, size - at)), at)
    except (apsw.FullError, apsw.IOError) as error:
        handle.xTruncate(before)
        raise DiskFullError("the reader's disk is full", retry_after_s=5) from error


@contextlib.contextmanager
def exclusive(path: Path, wait_ms: int = LOCK_WAIT_MS) -> Iterator[apsw.VFSFile]:
    """Hold the exclusive lock of a replica; new readers wait from the start, running ones finish.

    Raises:
        Unavailable: queries held it for longer than `wait_ms`; nothing was changed.
        ReplicationError: it cannot be opened.
    """
    try:
        handle = apsw.VFSFile("", str(path), list(_FLAGS))
    except apsw.Error as error:
        raise ReplicationError(f"cannot open replica {path.name}") from error
    try:
        deadline = time.monotonic() + wait_ms / 1_000
        for level in (
            apsw.SQLITE_LOCK_SHARED,
            apsw.SQLITE_LOCK_RESERVED,
            apsw.SQLITE_LOCK_EXCLUSIVE,
        ):
            while True:
                try:
                    handle.xLock(level)
                    break
                except apsw.BusyError as error:
                    if time.monotonic() >= deadline:
                        raise Unavailable(f"replica {path.name} is in use") from error
                    time.sleep(LOCK_RETRY_MS / 1_000)
        yield handle
    finally:
        handle.xUnlock(apsw.SQLITE_LOCK_NONE)
        handle.xClose()


def write_pages(handle: apsw.VFSFile, streams: Sequence[BinaryIO], txid: int) -> tuple[int, int]:
    """Apply verified LTX files to a replica at `txid` whose exclusive lock is held.

    Returns:
        The transaction it is at now, and its size in bytes.

    Raises:
        ReplicationError: a file does not follow; when pages were written already, the replica is
            rubbish.
        apsw.Error: the disk failed; the replica is rubbish.
    """
    head = handle.xRead(100, 0)
    counter = int.from_bytes(head[_COUNTER], "big") + 1
    page_size = int.from_bytes(head[16:18], "big")
    page_size = 65_536 if page_size == 1 else page_size
    first = handle.xRead(page_size, 0)
    size = handle.xFileSize()
    for stream in streams:
        stream.seek(0)
        reader = ltx.Reader(stream)
        header = reader.header
        _follows(header, txid)
        if header.page_size != page_size:
            raise ReplicationError("LTX file with another page size than the replica's")
        for number, page in reader.pages():
            if number == 1:
                first = page
            else:
                handle.xWrite(page, (number - 1) * page_size)
        size = header.commit * page_size
        handle.xTruncate(size)
        txid = header.max_txid
    handle.xWrite(as_replica(first, counter), 0)
    return txid, size


def as_replica(page: bytes, counter: int) -> bytes:
    """Page 1 in rollback mode with this change counter (of 32 bits, never 0)."""
    value = ((counter - 1) % 0xFFFFFFFF + 1).to_bytes(4, "big")
    out = bytearray(page)
    out[_JOURNAL_MODE] = _ROLLBACK
    out[_COUNTER] = value
    out[_VALID_FOR] = value
    return bytes(out)


def _follows(header: ltx.Header, txid: int) -> None:
    if not header.min_txid <= txid + 1 <= header.max_txid:
        raise ReplicationError(
            f"LTX file of transactions {header.min_txid} to {header.max_txid} cannot follow {txid}"
        )
