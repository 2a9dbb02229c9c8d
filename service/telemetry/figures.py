"""The node's own figures, as its workers write them: nothing else is needed to look at a node.

A search only puts a value in a queue of its worker; a thread sums them and writes the sums each
second. A worker that is killed loses that second.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, Self

import apsw
import numpy as np

from service.errors import SetupError
from service.settings import Settings
from service.telemetry import stories
from service.telemetry.figures_cells import cells_of
from service.telemetry.figures_store import NODE, FiguresStore, Sum
from service.telemetry.stories import Searched

FILE: Final = "figures.sqlite"
MINUTE_MS: Final = 60_000

_log = logging.getLogger(__name__)


class Figures:
    """One worker's part in them. Enter it after the fork to start its thread.

    Args:
        folder: the node's folder of counters, the same for all its workers; made if missing.
        role: `reader` or `writer`.
        settings: the limits.
        clock_ms: ms since 1970.
    """

    def __init__(
        self,
        folder: Path,
        role: str,
        settings: Settings,
        *,
        clock_ms: Callable[[], int] = lambda: int(time.time() * 1_000),
    ) -> None:
        self.path: Final = folder / FILE
        self._role = role
        self._settings = settings
        self._clock_ms = clock_ms
        self._waiting: deque[Searched] = deque()
        self._lost = 0
        self._store: FiguresStore | None = None
        self._lock = threading.Lock()
        self._tidied = 0
        self._ids: dict[str, tuple[int, int]] = {}
        self._failing = False
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._main, name="figures", daemon=True)

    def __enter__(self) -> Self:
        """Start.

        Raises:
            SetupError: the file cannot be made.
        """
        self._store = FiguresStore(self.path)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self.flush()
        if self._store is not None:
            self._store.connection.close()

    def searched(self, searched: Searched) -> None:
        """Note an answered search. Never blocks; when too many wait, it is lost and counted."""
        if len(self._waiting) >= self._settings.figures_waiting:
            self._lost += 1
            return
        self._waiting.append(searched)

    def flush(self) -> None:
        """Write what waits. When that fails it is lost, counted, and said once."""
        with self._lock:
            found = [self._waiting.popleft() for _ in range(len(self._waiting))]
            minute = self._clock_ms() // MINUTE_MS
            lost, self._lost = self._lost, 0
            if not found and not lost and minute == self._tidied:
                return
            try:
                self._write(found, minute, lost)
            except (apsw.Error, SetupError, OSError) as error:
                self._lost += lost + len(found)
                self._ids.clear()
                self._tidied = 0
                if not self._failing:
                    _log.warning("figures cannot be written: %s", type(error).__name__)
                self._failing = True
            else:
                self._failing = False

    # --- inside

    def _main(self) -> None:
        while not self._ending.wait(self._settings.figures_flush_ms / 1_000):
            self.flush()

    def _write(self, found: list[Searched], minute: int, lost: int) -> None:
        store = self._opened(minute)
        settings = self._settings
        with store.change():
            store.merge(self._sums(store, found))
            stories.keep(store.connection, self._role, self._told(found))
            if lost:
                store.note_lost(lost)
            if minute != self._tidied:
                store.tidy(
                    minute, minutes=settings.figures_minutes, most_bytes=settings.figures_bytes
                )
                stories.trim(
                    store.connection,
                    ordinary=settings.stories_count,
                    notable=settings.stories_notable_count,
                    since_ms=(minute - settings.figures_minutes) * MINUTE_MS,
                )
        self._tidied = minute

    def _opened(self, minute: int) -> FiguresStore:
        """The file; looked for once a minute, since another worker may have begun it anew."""
        if self._store is not None and minute != self._tidied and not self._store.current:
            self._store.connection.close()
            self._store = None
        if self._store is None:
            self._ids.clear()
            self._store = FiguresStore(self.path)
        return self._store

    def _sums(self, store: FiguresStore, found: list[Searched]) -> dict[tuple[int, int], Sum]:
        sums: dict[tuple[int, int], Sum] = {}
        for each in found:
            minute = each.at_ms // MINUTE_MS
            key = (minute, self._id(store, each.tenant, minute))
            if key not in sums:
                sums[key] = Sum()
            _count(sums[key], each)
        for (minute, _), one in list(sums.items()):
            sums.setdefault((minute, NODE), Sum()).add(one)
        for (_, tenant), one in sums.items():
            if tenant == NODE:  # sizes of several tenants have no last value
                one.documents = one.version = 0
        return sums

    def _id(self, store: FiguresStore, tenant: str, minute: int) -> int:
        known = self._ids.get(tenant)
        if known is not None and known[1] == minute:
            return known[0]
        if len(self._ids) >= self._settings.figures_tenants * 2:
            self._ids.clear()
        found = store.tenant_id(tenant, minute, self._settings.figures_tenants)
        self._ids[tenant] = (found, minute)
        return found

    def _told(self, found: list[Searched]) -> list[tuple[Searched, bool]]:
        """The last ones of each kind, as many as one flush may write."""
        slow_ms, most = self._settings.trace_slow_ms, self._settings.stories_flush_count
        flagged = [(each, stories.is_notable(each, slow_ms)) for each in found]
        ordinary = [pair for pair in flagged if not pair[1]][-most:]
        return ordinary + [pair for pair in flagged if pair[1]][-most:]


def _count(total: Sum, searched: Searched) -> None:
    outcome = searched.outcome
    pair = (outcome.state.value, "" if outcome.reason is None else outcome.reason.value)
    took_ms = {**searched.took_ms, "wait": searched.begin_ms}
    at = cells_of(pair, searched.temperature, took_ms, searched.age_ms)
    np.add.at(total.counts, at, 1)
    total.cpu_us += round(searched.cpu_ms * 1_000)
    total.age_ms = max(total.age_ms, searched.age_ms)
    total.documents, total.version = searched.documents, searched.version
