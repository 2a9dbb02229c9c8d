"""Reading a node's own figures: sums over a window, in buckets of time and by tenant."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import apsw

from service.errors import Unavailable
from service.telemetry.figures_store import (
    COLUMNS,
    HOUR,
    NODE,
    OTHERS,
    FiguresStore,
    Sum,
    collect,
)

_T = TypeVar("_T")

MINUTE_MS: Final = 60_000
BUCKETS: Final = 96
"""Most buckets of a series: bars that a phone can still show."""
WIDTHS_MIN: Final = (1, 2, 5, 10, 15, 30, 60, 120, 240, 720, 1_440)
WHOLE_HOURS_FROM_MIN: Final = 180
"""Windows at least this long begin at a whole hour, so that the sums of hours serve."""
OTHERS_NAME: Final = ""
"""The name under which tenants without figures of their own are summed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """Minutes since 1970: from `since` up to, not with, `until`; `width` is a bucket's."""

    since: int
    until: int
    width: int

    @classmethod
    def of(cls, now_ms: int, minutes: int) -> Window:
        """The last minutes, the present one included."""
        until = now_ms // MINUTE_MS + 1
        since = until - minutes
        if minutes >= WHOLE_HOURS_FROM_MIN:
            since = since // HOUR * HOUR
        width = next(w for w in (*WIDTHS_MIN, until - since) if (until - since) / w <= BUCKETS)
        return cls(since, until, width)

    def buckets(self) -> range:
        """Where each bucket begins."""
        return range(self.since, self.until, self.width)


@dataclasses.dataclass(frozen=True, slots=True)
class Series:
    """Sums by bucket, in the order of `window.buckets()`, and over all of them."""

    window: Window
    buckets: list[Sum]
    total: Sum


class FiguresReader:
    """Reads the file of a node; make one for each look at it.

    Args:
        path: the file. Where there is none yet, nothing was asked.

    Raises:
        Unavailable: it cannot be read just now.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def node(self, window: Window) -> Series:
        """All searches of this node."""
        return self._read(lambda store: _series(store, NODE, window))

    def tenant(self, window: Window, name: str) -> Series | None:
        """One tenant's; None when nothing is kept of it."""

        def read(store: FiguresStore) -> Series | None:
            found: Any = store.connection.execute("SELECT id FROM tenants WHERE name = ?", (name,))
            return None if (number := found.get) is None else _series(store, number, window)

        return self._read(read)

    def tenants(self, window: Window) -> dict[str, Sum]:
        """Each tenant's, those without figures of their own under `OTHERS_NAME`."""
        return self._read(lambda store: _tenants(store, window))

    def lost(self) -> int:
        """Searches whose figures were lost."""
        return self._read(
            lambda store: int(str(store.connection.execute("SELECT * FROM lost").get))
        )

    def stories(self, read: Callable[[apsw.Connection], _T]) -> _T:
        """Something of the stories."""
        return self._read(lambda store: read(store.connection))

    def _read(self, read: Callable[[FiguresStore], _T]) -> _T:
        try:
            with FiguresStore(self._path) as store:
                return read(store)
        except (apsw.BusyError, apsw.IOError, apsw.CorruptError) as error:
            raise Unavailable(
                f"the figures cannot be read ({type(error).__name__})", hint="Ask again."
            ) from error


def _series(store: FiguresStore, tenant: int, window: Window) -> Series:
    rows: list[Any] = store.connection.execute(
        "WITH RECURSIVE minute(at) AS (VALUES(?) UNION ALL SELECT at + 1 FROM minute"
        f" WHERE at + 1 < ?) SELECT {COLUMNS} FROM minute CROSS JOIN minutes USING (at)"
        " WHERE tenant = ? ORDER BY at",
        (window.since, window.until, tenant),
    ).fetchall()

    def start(at: int) -> int:
        return window.since + (at - window.since) // window.width * window.width

    by_start = collect([(at, start(at), *rest) for at, _, *rest in rows])
    total = Sum()
    for _, found in sorted(by_start.items()):
        total.add(found)
    return Series(window, [by_start.get(at) or Sum() for at in window.buckets()], total)


def _tenants(store: FiguresStore, window: Window) -> dict[str, Sum]:
    execute = store.connection.execute
    first = -(-window.since // HOUR) * HOUR
    last: int | None = execute("SELECT max(at) FROM hours WHERE at >= ?", (first,)).get
    rows: list[Sequence[Any]] = []
    spans = [(window.since, window.until)]
    if last is not None and last + HOUR <= window.until:
        hours = execute(
            f"SELECT {COLUMNS} FROM hours WHERE at >= ? AND at <= ? AND tenant != ? ORDER BY at",
            (first, last, NODE),
        )
        rows += hours
        spans = [(window.since, first), (last + HOUR, window.until)]
    for begin, end in spans:
        rows += execute(
            f"SELECT {COLUMNS} FROM minutes WHERE at >= ? AND at < ? AND tenant != ? ORDER BY at",
            (begin, end, NODE),
        )
    rows.sort(key=lambda row: int(row[0]))
    known: list[Any] = execute("SELECT id, name FROM tenants").fetchall()
    names: dict[int, Any] = dict(known)
    names[OTHERS] = OTHERS_NAME
    return {str(names[tenant]): found for tenant, found in collect(rows).items() if tenant in names}
