"""The canary: a file per shard that is written every few seconds, so that silence is noticed.

The writer commits to it like to a tenant's file, and it travels the whole way: SQLite, Litestream,
store, heads, follower. Every reader follows it and notes by its own clock when a new version
arrived. A stall anywhere shows as the age of the last arrival, whatever the parts say of
themselves. It belongs to no tenant: no key opens it.

Its name follows from the shard's, so readers know it without being told. Names of files are never
used again once deleted; a canary is never deleted.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path

import apsw

from service.errors import MemlaneError
from service.index.connection import open_writer
from service.replica.names import first_epoch, latest_epoch, writer_path

_log = logging.getLogger(__name__)

_TABLES = """
CREATE TABLE IF NOT EXISTS meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO meta VALUES('version', 0), ('committed_at', 0);
"""


def canary_file(shard: str) -> str:
    """The name of a shard's canary: 128 bits of a digest in base32, as every file's name is."""
    digest = hashlib.sha256(b"memlane canary\0" + shard.encode()).digest()[:16]
    return base64.b32encode(digest).decode().rstrip("=").lower()


class Canary:
    """The writer's side: bumps the canary of one shard from a thread of its own.

    Belongs into the process that commits, beside the `Publisher`; start it after the publisher,
    stop it before.

    Args:
        data: the writer's data folder.
        shard: the shard's name.
        changed: told of every commit: `Publisher.changed`.
        interval_ms: the setting `canary_interval_ms`.
        term: of this writer's ownership, for the epoch of a new file.
        may_write: asked before each commit; False while this writer lacks its lease.
    """

    def __init__(
        self,
        data: Path,
        shard: str,
        *,
        changed: Callable[[str], None],
        interval_ms: int,
        term: int = 0,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self.file = canary_file(shard)
        self.failures = 0
        self._data = data
        self._changed = changed
        self._interval = interval_ms / 1_000
        self._term = term
        self._may_write = may_write
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="canary", daemon=True)

    def start(self) -> None:
        """Begin; the first bump is made at once."""
        self._thread.start()

    def stop(self) -> None:
        """End, within one commit."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def bump(self) -> int:
        """Commit the next version and announce it.

        Returns:
            The version.

        Raises:
            apsw.Error: the disk failed.
            IndexCorrupt: the file is not one of ours.
        """
        epoch = latest_epoch(self._data, self.file) or first_epoch(self._term)
        path = writer_path(self._data, self.file, epoch)
        path.parent.mkdir(parents=True, exist_ok=True)
        connection = open_writer(path)
        try:
            with connection:
                connection.execute(_TABLES)
                connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'version'")
                connection.execute(
                    "UPDATE meta SET value = ? WHERE key = 'committed_at'",
                    (int(time.time() * 1_000),),
                )
                version = connection.execute("SELECT value FROM meta WHERE key = 'version'").get
        finally:
            connection.close()
        self._changed(self.file)
        return int(version)

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                if self._may_write():
                    self.bump()
            except (apsw.Error, MemlaneError, OSError) as error:
                self.failures += 1
                _log.warning("the canary cannot be written: %s", error)
            self._stopping.wait(self._interval)
