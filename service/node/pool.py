"""Open connections to tenants' files, kept for the next query within bounds."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from service.index.reader import IndexReader
from service.settings import Settings


class ReaderPool:
    """Idle `IndexReader`s by path; safe to share among threads.

    A reader belongs to one caller from `lend` on, so the number open at once is that of the idle
    ones plus that of the callers.

    Args:
        paths_most: paths with idle readers; the least recently used are closed first.
        idle_most: idle readers of one path.
        open_most: idle readers of all paths; each holds a descriptor.
        cache_kib: SQLite's page cache of each.
        mmap_mib: how much of a file each maps into memory.
    """

    def __init__(
        self,
        *,
        paths_most: int,
        idle_most: int,
        cache_kib: int,
        mmap_mib: int,
        open_most: int = 1 << 30,
    ) -> None:
        self._paths_most = paths_most
        self._idle_most = idle_most
        self._open_most = open_most
        self._cache_kib = cache_kib
        self._mmap_mib = mmap_mib
        self._lock = threading.Lock()
        self._idle: OrderedDict[Path, list[IndexReader]] = OrderedDict()
        self._count = 0

    @classmethod
    def within(cls, settings: Settings) -> Self:
        """A pool within the settings' limits."""
        return cls(
            paths_most=settings.open_tenants,
            idle_most=settings.connections_per_tenant,
            open_most=settings.open_connections,
            cache_kib=settings.sqlite_cache_kib,
            mmap_mib=settings.sqlite_mmap_mib,
        )

    @contextmanager
    def lend(self, path: Path) -> Iterator[IndexReader]:
        """A reader of this path for the block; one that failed is not used again.

        Raises:
            NotFound, IndexCorrupt, IndexTooNew: see `IndexReader`.
        """
        reader = self._take(path)
        try:
            yield reader
        except BaseException:
            reader.close()
            raise
        self._give_back(path, reader)

    def drop(self, path: Path) -> None:
        """Close the idle readers of a path that is gone."""
        with self._lock:
            idle = self._idle.pop(path, [])
            self._count -= len(idle)
        for reader in idle:
            reader.close()

    def has(self, path: Path) -> bool:
        """Is a reader of this path open and idle?"""
        with self._lock:
            return bool(self._idle.get(path))

    def sweep(self) -> None:
        """Close the idle readers of files that are no longer there; the disk gets its room back."""
        with self._lock:
            paths = list(self._idle)
        for path in paths:
            if not path.exists():
                self.drop(path)

    def close(self) -> None:
        """Close all that are idle."""
        with self._lock:
            idle = [reader for readers in self._idle.values() for reader in readers]
            self._idle.clear()
            self._count = 0
        for reader in idle:
            reader.close()

    def _take(self, path: Path) -> IndexReader:
        with self._lock:
            readers = self._idle.get(path)
            if readers:
                self._idle.move_to_end(path)
                self._count -= 1
                return readers.pop()
        return IndexReader(path, cache_kib=self._cache_kib, mmap_mib=self._mmap_mib)

    def _give_back(self, path: Path, reader: IndexReader) -> None:
        surplus: list[IndexReader] = []
        with self._lock:
            readers = self._idle.setdefault(path, [])
            self._idle.move_to_end(path)
            if len(readers) < self._idle_most:
                readers.append(reader)
                self._count += 1
            else:
                surplus.append(reader)
            while len(self._idle) > self._paths_most or self._count > self._open_most:
                oldest = self._idle.popitem(last=False)[1]
                self._count -= len(oldest)
                surplus += oldest
        for one in surplus:
            one.close()
