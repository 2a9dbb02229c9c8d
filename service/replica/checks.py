"""Is a file what it should be? Asked before a replica's first use, and when a worker has doubts.

Two checks, for two dangers:

* **Foreign content** (`check_schema`): the application's stamp, no trigger, no view, the version
  stamps. It costs a page or two and always runs before the first answer. That nothing of a file's
  own runs is `open_reader`'s doing; this refuses a file that tries.
* **Damage** (`check_pages`): SQLite's `quick_check`, which reads every page; two thirds of a cold
  start. What we restore comes from LTX files whose checksum over every decompressed page was
  verified, so damage on the way is excluded already, and what is left is a writer whose own file
  is damaged. So files up to `check_inline_bytes` are checked before their first answer, larger
  ones right after it and bounded in time; a failure takes the replica away
  into quarantine. Between those two moments damage can at worst make SQLite report it, which
  workers pass on (`suspect`): with untrusted pages SQLite fails, it does not run what they hold
  (sqlite.org/security.html).
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import apsw

from service.errors import IndexCorrupt
from service.index.connection import open_reader
from service.replica.stamps import STAMPS, Stamps

#: Longest a check runs beside queries; nothing can be applied to the replica meanwhile.
LATER_MS = 5_000
#: SQLite instructions between two looks at the clock.
STEPS = 50_000


class BadFileError(IndexCorrupt):
    """A file that must not be served.

    Attributes:
        cause: foreign, schema, stamps or damage; for counters.
    """

    def __init__(self, detail: str, *, cause: str) -> None:
        super().__init__(detail)
        self.cause = cause


def check_schema(path: Path) -> Stamps:
    """Refuse a foreign file.

    Returns:
        Its stamps.

    Raises:
        BadFileError: it is not one of ours, or holds what we never create.
        NotFound: it is not there.
    """
    try:
        connection = open_reader(path)
    except IndexCorrupt as error:
        raise BadFileError(error.detail, cause="foreign") from error
    try:
        kinds = {row[0] for row in connection.execute("SELECT DISTINCT type FROM sqlite_schema")}
        if kinds & {"trigger", "view"}:
            raise BadFileError(
                f"{path.name} holds a trigger or a view, which we never create", cause="schema"
            )
        rows: list[Any] = connection.execute(STAMPS).fetchall()
        stamps = dict(rows)
        return Stamps(int(stamps["version"]), int(stamps["committed_at"]))
    except (KeyError, TypeError, ValueError, apsw.SQLError) as error:
        raise BadFileError(f"{path.name} has no version stamp", cause="stamps") from error
    except (apsw.CorruptError, apsw.NotADBError) as error:
        raise BadFileError(f"{path.name} has no readable schema", cause="schema") from error
    finally:
        connection.close()


def check_pages(path: Path, *, most_ms: int | None = None) -> bool:
    """Run `quick_check`.

    Args:
        path: the file.
        most_ms: give up after so long; None never does.

    Returns:
        Whether it ran to its end.

    Raises:
        BadFileError: the file is damaged.
        NotFound: it is not there.
    """
    try:
        connection = open_reader(path)
    except IndexCorrupt as error:
        raise BadFileError(error.detail, cause="damage") from error
    deadline = None if most_ms is None else time.monotonic() + most_ms / 1_000
    try:
        if deadline is not None:
            connection.set_progress_handler(lambda: time.monotonic() >= deadline, STEPS)
        with connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
    except apsw.InterruptError:
        return False
    except (apsw.CorruptError, apsw.NotADBError, apsw.SQLError) as error:
        raise BadFileError(f"{path.name} is damaged", cause="damage") from error
    finally:
        connection.close()
    if found != ("ok",):
        raise BadFileError(f"{path.name} fails quick_check", cause="damage")
    return True
