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
        cache_kib: SQLite's page cache of each.
    """

    def __init__(self, *, paths_most: int, idle_most: int, cache_kib: int) -> None:
        self._paths_most = paths_most
        self._idle_most = idle_most
        self._cache_kib = cache_kib
        self._lock = threading.Lock()
        self._idle: OrderedDict[Path, list[IndexReader]] = OrderedDict()

    @classmethod
    def within(cls, settings: Settings) -> Self:
        """A pool within the settings' limits."""
        return cls(
            paths_most=settings.open_tenants,
            idle_most=settings.connections_per_tenant,
            cache_kib=settings.sqlite_cache_kib,
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
        for reader in idle:
            reader.close()

    def close(self) -> None:
        """Close all that are idle."""
        with self._lock:
            idle = [reader for readers in self._idle.values() for reader in readers]
            self._idle.clear()
        for reader in idle:
            reader.close()

    def _take(self, path: Path) -> IndexReader:
        with self._lock:
            readers = self._idle.get(path)
            if readers:
                self._idle.move_to_end(path)
                return readers.pop()
        return IndexReader(path, cache_kib=self._cache_kib)

    def _give_back(self, path: Path, reader: IndexReader) -> None:
        surplus: list[IndexReader] = []
        with self._lock:
            readers = self._idle.setdefault(path, [])
            self._idle.move_to_end(path)
            if len(readers) < self._idle_most:
                readers.append(reader)
            else:
                surplus.append(reader)
            while len(self._idle) > self._paths_most:
                surplus += self._idle.popitem(last=False)[1]
        for one in surplus:
            one.close()
