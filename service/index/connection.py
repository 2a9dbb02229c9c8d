"""The only ways to open a tenant's file.

Writers and readers set different pragmas, and getting one wrong loses data: an application
checkpoint while Litestream is down makes the replica silently diverge (see deploy/OPERATIONS.md).
A test proves that no other module opens one.
"""

from __future__ import annotations

from pathlib import Path

import apsw

from service.errors import IndexCorrupt, NotFound

#: "MLN1": stamped as `application_id` into every file we write.
APPLICATION_ID = 0x4D4C4E31
BUSY_TIMEOUT_MS = 5_000
#: The most that SQLite maps of one file unless it was compiled otherwise (SQLITE_MAX_MMAP_SIZE).
MMAP_MIB = 2_047


def open_writer(path: Path, *, cache_kib: int = 8_192) -> apsw.Connection:
    """Open or create a file for writing, with Litestream as its only checkpointer.

    What a batch changes beyond `cache_kib` goes to the log before the commit, some of it twice.

    Raises:
        IndexCorrupt: the file is not SQLite, or not one of ours.
    """
    connection = apsw.Connection(str(path))
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.execute("PRAGMA wal_autocheckpoint=0")
        # The default page size is right for FTS5 and is what Litestream was measured with.
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute(f"PRAGMA cache_size=-{cache_kib}")
        connection.execute("PRAGMA foreign_keys=ON")
        _claim(connection, path)
    except apsw.NotADBError as error:
        connection.close()
        raise IndexCorrupt(f"{path.name} is not a SQLite file") from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_reader(
    path: Path, *, cache_kib: int = 16_384, mmap_mib: int = MMAP_MIB
) -> apsw.Connection:
    """Open a file read-only, trusting nothing in it: no trigger, view or function of its own runs.

    Up to `mmap_mib` of it are mapped: a page is then read where the kernel holds it, without a call
    and without a copy in every connection. Whoever changes a replica does so under SQLite's
    exclusive lock and with a new change counter, at which a connection drops its map (`pager.c`,
    `sqlite3PagerSharedLock`), so a file that shrank is never read beyond its end. A writer's own
    file never shrinks: nothing here vacuums it.

    Raises:
        NotFound: there is no such file.
        IndexCorrupt: the file is not SQLite, or not one of ours.
    """
    try:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    except apsw.CantOpenError as error:
        raise NotFound(f"{path.name} is not on this node") from error
    try:
        connection.set_busy_timeout(BUSY_TIMEOUT_MS)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_TRIGGER, 0)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_VIEW, 0)
        connection.execute(f"PRAGMA cache_size=-{cache_kib}")
        connection.execute(f"PRAGMA mmap_size={mmap_mib << 20}")
        if connection.pragma("application_id") != APPLICATION_ID:
            raise IndexCorrupt(f"{path.name} is a SQLite file of another application")
    except apsw.NotADBError as error:
        connection.close()
        raise IndexCorrupt(f"{path.name} is not a SQLite file") from error
    except BaseException:
        connection.close()
        raise
    return connection


def open_private(path: Path) -> apsw.Connection:
    """Open or create a file that nobody else has open and Litestream does not watch.

    Only such a file may be checkpointed or leave WAL mode.
    """
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA synchronous=OFF")  # what is cut short is thrown away
    return connection


def _claim(connection: apsw.Connection, path: Path) -> None:
    """Stamp a fresh file as ours; refuse one that belongs to somebody else."""
    owner = connection.pragma("application_id")
    if owner == APPLICATION_ID:
        return
    if owner != 0 or connection.pragma("schema_version") != 0:
        raise IndexCorrupt(f"{path.name} is a SQLite file of another application")
    connection.pragma("application_id", APPLICATION_ID)
