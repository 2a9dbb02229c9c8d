"""What a file says about itself: the two stamps of its `meta` table that replication relies on."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import apsw

from service.errors import IndexCorrupt
from service.index.connection import open_reader

STAMPS = "SELECT key, value FROM meta WHERE key IN ('version', 'committed_at')"


@dataclasses.dataclass(frozen=True, slots=True)
class Stamps:
    """`version` grows by one with each committed batch; `committed_at` is Unix milliseconds."""

    version: int
    committed_at: int


def read_stamps(path: Path, *, check: bool = False) -> Stamps:
    """Read the stamps through a connection of their own.

    Args:
        path: the file.
        check: run `quick_check` first, in the same transaction.

    Raises:
        NotFound: no such file.
        IndexCorrupt: not one of ours, damaged, or without stamps.
    """
    connection = open_reader(path)
    try:
        with connection:
            if check and (found := connection.execute("PRAGMA quick_check(1)").fetchone()) != (
                "ok",
            ):
                raise IndexCorrupt(f"{path.name} fails quick_check: {found}")
            rows: list[Any] = connection.execute(STAMPS).fetchall()
        stamps = dict(rows)
        return Stamps(int(stamps["version"]), int(stamps["committed_at"]))
    except (KeyError, TypeError, ValueError, apsw.SQLError) as error:
        raise IndexCorrupt(f"{path.name} has no version stamp") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise IndexCorrupt(f"{path.name} is damaged") from error
    finally:
        connection.close()
