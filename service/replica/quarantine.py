"""Where damaged and foreign files go: `<cache>/quarantine/`, for people to look at.

Bounded by count and bytes, the oldest is removed first; a file too large to keep is removed at
once. Names are `<file>-<epoch>-<number>.<cause>`: nothing ever opens them as a replica again.
"""

from __future__ import annotations

import contextlib
import secrets
from pathlib import Path

from service.replica.counters import Counters

FOLDER = "quarantine"


class Quarantine:
    """One node's damaged files. Safe to share among threads.

    Counters: quarantined, and quarantined_<cause>.
    """

    def __init__(
        self, cache: Path, counters: Counters, *, files_most: int, bytes_most: int
    ) -> None:
        self.folder = cache / FOLDER
        self._counters = counters
        self._files_most = files_most
        self._bytes_most = bytes_most

    def take(self, path: Path, cause: str) -> None:
        """Move a file away; connections that have it open keep it. A full disk removes it."""
        self._counters.add("quarantined")
        self._counters.add(f"quarantined_{cause}")
        try:
            self.folder.mkdir(exist_ok=True)
            # Not the whole name: a draft's and a replica's must not collide with an earlier one's.
            path.rename(self.folder / f"{path.stem}.{secrets.token_hex(3)}.{cause}")
            self._trim()
        except FileNotFoundError:
            return
        except OSError:
            path.unlink(missing_ok=True)

    def forget(self, file: str) -> None:
        """The file was deleted: nothing of it may stay here either."""
        for path in self._oldest_first():
            if path.name.startswith(file):
                path.unlink(missing_ok=True)

    def clear(self) -> int:
        """Remove all: somebody needs the room more. The bytes that were freed."""
        freed = 0
        for path in self._oldest_first():
            freed += path.stat().st_size
            path.unlink(missing_ok=True)
        return freed

    def _trim(self) -> None:
        kept = [(path, path.stat().st_size) for path in self._oldest_first()]
        size = sum(each for _, each in kept)
        surplus = len(kept) - self._files_most
        for path, each in kept:
            if surplus <= 0 and size <= self._bytes_most:
                return
            path.unlink(missing_ok=True)
            surplus -= 1
            size -= each

    def _oldest_first(self) -> list[Path]:
        found = []
        with contextlib.suppress(FileNotFoundError):
            found = [(path.stat().st_ctime_ns, path) for path in self.folder.iterdir()]
        return [path for _, path in sorted(found)]
