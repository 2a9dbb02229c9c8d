"""Where everything lies: names of files, keys of objects, paths of sockets.

    <data>/writer/tenants/<file>/<epoch>.db      the writer's files, one epoch each
    <store>/v1/<file>/<epoch>.db/...             what Litestream replicates of them
    <store>/heads/<shard>.json                   what a shard's writer has replicated
    <store>/leases/<shard>.json                  who a shard's writer is
    <cache>/node.db  <cache>/files/              a reader node, disposable

`<file>` is 128 random bits, chosen when the file is created and never reused: Litestream does not
replicate a name that was deleted and made again. `<epoch>` grows when a writer rebuilds the file,
and when another owner takes its shard over. Every ownership has `EPOCHS_A_TERM` epochs of its own,
so two owners cannot write below one prefix even if neither ever announced what it wrote.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import tempfile
from pathlib import Path

from service.errors import ReplicationError, SetupError
from service.tenancy.registry import new_file_name

#: `sun_path` of a Unix socket address holds this many bytes with its ending zero (unix(7)).
SOCKET_PATH_BYTES = 107
FIRST_EPOCH = 1
#: How many epochs one ownership may use of each file, more than it will ever rebuild it.
EPOCHS_A_TERM = 1_000
#: Beyond this are the epochs of files that were moved between shards; no term gets there alone.
MOVED_EPOCHS = 10**9

_FILE = re.compile(r"[a-z2-7]{26}")
_EPOCH_FILE = re.compile(r"(\d{8,})\.db")


new_file = new_file_name


def check_file(file: str) -> str:
    """Return `file` if it is a file's name.

    Raises:
        ReplicationError: it is not; it must never become part of a path.
    """
    if not _FILE.fullmatch(file):
        raise ReplicationError(f"{file!r} is not the name of a file")
    return file


def tenants_folder(data: Path) -> Path:
    """The folder that Litestream watches."""
    return data / "writer" / "tenants"


def writer_path(data: Path, file: str, epoch: int) -> Path:
    """Where the writer keeps one epoch of a file."""
    return tenants_folder(data) / check_file(file) / f"{epoch:08d}.db"


def first_epoch(term: int) -> int:
    """The epoch of a file that is new under an ownership; term 0 is that of nobody."""
    return max(FIRST_EPOCH, term * EPOCHS_A_TERM)


def next_epoch(term: int, *known: int) -> int:
    """An epoch that an ownership may use and that follows all those of a file.

    Of a file that was once moved between shards, it grows with every term, see `adopted_epoch`.
    """
    last = max(known)
    if last >= MOVED_EPOCHS:
        return adopted_epoch(term, last)
    return max(first_epoch(term), last + 1)


def adopted_epoch(term: int, last: int) -> int:
    """The epoch of a file that was moved to another shard, where terms count for themselves.

    All such epochs are beyond `MOVED_EPOCHS`. For one known last epoch a later ownership has a
    higher one, so it goes beyond whatever an earlier one wrote that died before it announced it,
    and whose Litestream may still run.
    """
    return (max(last, MOVED_EPOCHS) // EPOCHS_A_TERM + max(term, 1)) * EPOCHS_A_TERM


def latest_epoch(data: Path, file: str) -> int | None:
    """The newest epoch the writer has of a file; None when it has none."""
    folder = tenants_folder(data) / check_file(file)
    if not folder.is_dir():
        return None
    found = [int(m[1]) for path in folder.iterdir() if (m := _EPOCH_FILE.fullmatch(path.name))]
    return max(found, default=None)


def current_path(data: Path, file: str) -> Path:
    """Where the writer opens a file: its newest epoch, or the first one of a new file."""
    return writer_path(data, file, latest_epoch(data, file) or FIRST_EPOCH)


def local_files(data: Path) -> list[str]:
    """All files the writer has."""
    folder = tenants_folder(data)
    if not folder.is_dir():
        return []
    return sorted(
        path.name
        for path in folder.iterdir()
        if _FILE.fullmatch(path.name) and latest_epoch(data, path.name) is not None
    )


def heads_key(shard: str) -> str:
    """The object that says what a shard's writer has replicated."""
    return f"heads/{shard}.json"


def lease_key(shard: str) -> str:
    """The object that says who a shard's writer is."""
    return f"leases/{shard}.json"


def file_prefix(file: str) -> str:
    """Below this key lies all that was ever replicated of a file."""
    return f"v1/{check_file(file)}/"


def epoch_of_key(key: str) -> int | None:
    """The epoch that an object below `file_prefix` belongs to."""
    parts = key.split("/")
    match = _EPOCH_FILE.fullmatch(parts[2]) if len(parts) > 2 else None
    return int(match[1]) if match else None


def replica_prefix(file: str, epoch: int) -> str:
    """Below this key lies all that Litestream replicated of one epoch of a file."""
    return f"v1/{check_file(file)}/{epoch:08d}.db/"


def socket_path(folder: Path, name: str) -> Path:
    """Where a socket of `folder` is bound: inside it, or in a short private folder elsewhere.

    Both ends compute the same path. The fallback belongs to this user alone.

    Raises:
        SetupError: somebody else owns the fallback folder.
    """
    folder = folder.absolute()
    path = folder / name
    if len(os.fsencode(path)) <= SOCKET_PATH_BYTES:
        return path
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    private = Path(tempfile.gettempdir()) / f"memlane-{os.getuid()}-{digest}"
    private.mkdir(mode=0o700, exist_ok=True)
    status = private.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
        raise SetupError(
            f"{private} is not a private folder of this user",
            hint="Remove it, or choose a shorter data folder.",
        )
    return private / name
