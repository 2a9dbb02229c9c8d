"""Removing all that there is of a file: here, and in the object store.

Order matters. Litestream lets go of the file first, then it goes from the disk, then from the
store. An upload that was under way when Litestream let go may still arrive, so the store is listed
until it stays empty.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from service.errors import ReplicationError, Unavailable
from service.replica.litestream import LitestreamClient
from service.replica.names import check_file, epoch_of_key, file_prefix, tenants_folder
from service.replica.store import Listed, ObjectStore

#: So many listings in a row must find nothing, each `settle_ms` after the one before.
EMPTY_LISTINGS = 3
UNREGISTER_MS = 10_000
POLL_S = 0.05


def let_go(data: Path, file: str, deadline: float) -> None:
    """Have Litestream let go of every epoch of a file, and see that it did.

    Args:
        data: the writer's data folder.
        file: its name; nobody may write it any more.
        deadline: monotonic seconds.

    Raises:
        Unavailable: it did not in time, or it does not answer, so that nobody knows.
    """
    client = LitestreamClient(data)
    folder = tenants_folder(data.absolute()) / check_file(file)
    while True:
        try:
            held = [path for path in client.watched() if path.parent == folder]
            for path in held:
                client.unregister(path, UNREGISTER_MS)
            if not held:
                return
        except ReplicationError as error:
            raise Unavailable(f"litestream does not let go of the file: {error.detail}") from error
        if time.monotonic() >= deadline:
            raise Unavailable("litestream still holds the file")
        time.sleep(POLL_S)


def erase_local(data: Path, file: str) -> int:
    """Remove every epoch of a file from the writer's disk.

    Also what Litestream keeps of it, and what was set aside.

    Returns:
        How many files that were.

    Raises:
        Unavailable: the disk refused.
    """
    writer = data / "writer"
    folders = [tenants_folder(data) / check_file(file), writer / "litestream-meta" / file]
    folders += sorted((writer / "set-aside").glob(f"{file}-*"))
    removed = 0
    for folder in folders:
        found = sum(path.is_file() for path in folder.rglob("*"))
        try:
            shutil.rmtree(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise Unavailable(f"the file is not removed from the disk: {error.strerror}") from error
        removed += found
    return removed


def epochs_of(found: list[Listed]) -> set[int]:
    """The epochs that objects belong to."""
    return {epoch for item in found if (epoch := epoch_of_key(item.key)) is not None}


def erase_objects(
    store: ObjectStore,
    file: str,
    *,
    settle_ms: int,
    deadline: float,
    note: Callable[[list[Listed]], None],
    ending: Callable[[float], bool],
) -> None:
    """Remove all objects of all epochs of a file, and those that still arrive.

    Args:
        store: where they lie.
        file: its name; nothing announces it any more.
        settle_ms: between two listings; an upload under way must end within some of them.
        deadline: monotonic seconds.
        note: told of the objects just before they are removed.
        ending: waits so many seconds; True when this process ends.

    Raises:
        ReplicationError: the store failed; what is left is removed next time.
        Unavailable: objects kept arriving, or this process ends.
    """
    prefix = file_prefix(file)
    empty = 0
    while True:
        found = list(store.list(prefix))
        if found:
            empty = 0
            note(found)
            store.delete_prefix(prefix)
        else:
            empty += 1
        if empty >= EMPTY_LISTINGS:
            return
        if time.monotonic() >= deadline:
            raise Unavailable("objects of the file are still there, or it is not sure yet")
        if ending(settle_ms / 1_000):
            raise Unavailable("the writer stops")
