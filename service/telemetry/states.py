"""How many searches ended in which semantic state, exact over all workers of a node.

Each worker owns one file of counters, mapped into its memory, and counts by adding to a cell. The
files outlive their workers: a worker that is killed loses nothing, and the one that replaces it
goes on with the same file. The node's totals are the sums over all files.

A file: 8 bytes magic, the names of its cells as JSON padded with blanks to `_HEADER_BYTES`, then
one little-endian signed 64-bit integer a name. Names travel with the numbers, so a release with
other states reads the old ones right.
"""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Final

from service.errors import SetupError
from service.semantic.state import LEGAL_PAIRS, SemanticOutcome

ROLES: Final = ("reader", "writer")
SLOTS: Final = 256
"""Most workers of one node that count at the same time."""

_MAGIC: Final = b"MLNCNT1\n"
_HEADER_BYTES: Final = 4_096
_CELL_BYTES: Final = 8

StateKey = tuple[str, str, str]
"""(role, state, reason); the reason of `ok` is the empty string."""

CELLS: Final[tuple[StateKey, ...]] = tuple(
    (role, state.value, "" if reason is None else reason.value)
    for role in ROLES
    for state, reason in LEGAL_PAIRS
)
_FILE_BYTES: Final = _HEADER_BYTES + _CELL_BYTES * len(CELLS)


class StateCounter:
    """Counts outcomes of one worker; safe to share among its threads.

    Open it after the fork: two processes must not count in one slot.

    Args:
        folder: the node's folder of counters, the same for all its workers; made if missing.
        role: `reader` or `writer`.

    Raises:
        SetupError: the folder cannot be used, or `SLOTS` workers are at work already.
    """

    def __init__(self, folder: Path, *, role: str) -> None:
        self._folder = folder
        self._cell_of = {key[1:]: at for at, key in enumerate(CELLS) if key[0] == role}
        if not self._cell_of:
            raise SetupError(f"there is no role {role}", hint=f"Roles are {', '.join(ROLES)}.")
        self._lock = threading.Lock()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._handle = _claim(folder)
            self._map = mmap.mmap(self._handle, _FILE_BYTES)
        except OSError as error:
            raise SetupError(
                f"the counters in {folder} cannot be used ({error.strerror})",
                hint="Give this role a data folder it may write to.",
            ) from error
        self._cells = memoryview(self._map)[_HEADER_BYTES:].cast("q")
        self._before = list(self._cells)
        self._last, self._closed = self._before, False

    def count(self, outcome: SemanticOutcome) -> None:
        """Add one search with this outcome."""
        reason = "" if outcome.reason is None else outcome.reason.value
        cell = self._cell_of[outcome.state.value, reason]
        with self._lock:
            # An aligned 8-byte store: a worker killed here has counted this search or has not.
            self._cells[cell] += 1

    def totals(self) -> dict[StateKey, int]:
        """Searches by (role, state, reason) over all workers of this node, past ones too."""
        return read_totals(self._folder)

    def share(self) -> dict[StateKey, int]:
        """Searches that this worker counted since it was opened; zeros too, closed or not."""
        with self._lock:
            now = self._last if self._closed else list(self._cells)
        counted = zip(CELLS, now, self._before, strict=True)
        ours = set(self._cell_of.values())
        return {
            key: count - before for at, (key, count, before) in enumerate(counted) if at in ours
        }

    def close(self) -> None:
        """Give the slot back; its counts stay."""
        with self._lock:
            self._last, self._closed = list(self._cells), True
            self._cells.release()
            self._map.close()
            os.close(self._handle)

    def __enter__(self) -> StateCounter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_totals(folder: Path) -> dict[StateKey, int]:
    """Searches by (role, state, reason) over all counter files of a folder, without zeros."""
    totals: Counter[StateKey] = Counter()
    for path in sorted(folder.glob("slot-*")):
        raw = path.read_bytes()
        names = _names(raw)
        cells = memoryview(raw)[_HEADER_BYTES : _HEADER_BYTES + _CELL_BYTES * len(names)].cast("q")
        for name, count in zip(names, cells, strict=True):
            totals[name] += count
    return {key: count for key, count in totals.items() if count}


def _claim(folder: Path) -> int:
    """The open file of the first slot that nobody holds and whose cells are ours."""
    for slot in range(SLOTS):
        handle = os.open(folder / f"slot-{slot:03}", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            continue
        raw = os.pread(handle, _FILE_BYTES, 0)
        names = _names(raw)
        if not names:
            os.ftruncate(handle, _FILE_BYTES)
            os.pwrite(handle, _header(), 0)
            return handle
        if names == CELLS:
            return handle
        os.close(handle)
    raise SetupError(
        f"all {SLOTS} counter slots in {folder} are taken",
        hint="Run fewer workers, or give this node its own data folder.",
    )


def _header() -> bytes:
    return _MAGIC + json.dumps(CELLS).encode("ascii").ljust(_HEADER_BYTES - len(_MAGIC))


def _names(raw: bytes) -> tuple[StateKey, ...]:
    """The names of a file's cells; none for a file that was only just made."""
    if len(raw) < _HEADER_BYTES or not raw.startswith(_MAGIC):
        return ()
    return tuple(
        (role, state, reason)
        for role, state, reason in json.loads(raw[len(_MAGIC) : _HEADER_BYTES])
    )
