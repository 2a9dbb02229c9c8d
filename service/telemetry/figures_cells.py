"""What is counted of searches, as a row of cells: states with reasons, temperatures, histograms.

A row on disk names only the cells that are not zero: most searches of a tenant and a minute fall
into few of them. Pure.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from service.semantic.state import LEGAL_PAIRS

Counts = npt.NDArray[np.int64]
"""One row: how often, by cell."""

PHASES: Final = (
    "total",
    "wait",
    "open",
    "lanes",
    "score",
    "semantic",
    "rescore",
    "snippets",
)
"""Phases of a search with a histogram of their own; others are in its story only."""
AGE: Final = "age"
"""The histogram of how old what was answered from was."""
HISTOGRAMS: Final = (*PHASES, AGE)
TEMPERATURES: Final = ("hot", "warm", "cold")
PAIRS: Final[tuple[tuple[str, str], ...]] = tuple(
    (state.value, "" if reason is None else reason.value) for state, reason in LEGAL_PAIRS
)
"""(state, reason); the reason of `ok` is the empty string."""

BOUNDS_MS: Final = tuple(10.0 ** (step / 5) for step in range(-5, 26))
"""Upper bounds of all buckets but the last: 0.1 ms to 100 s, five a decade (the R5 series of
ISO 3), so what is read from a histogram is off by a factor of 1.58 at most."""
BUCKETS: Final = len(BOUNDS_MS) + 1

_FIRST_TEMPERATURE: Final = len(PAIRS)
_FIRST_HISTOGRAM: Final = _FIRST_TEMPERATURE + len(TEMPERATURES)
NAMES: Final = (
    *("/".join(pair) for pair in PAIRS),
    *TEMPERATURES,
    *(f"{name}/{at}" for name, at in itertools.product(HISTOGRAMS, range(BUCKETS))),
)
"""Every cell's name. A file made with other names is of another release."""
CELLS: Final = len(NAMES)

_PAIR_CELLS: Final = {pair: at for at, pair in enumerate(PAIRS)}
_TEMPERATURE_CELLS: Final = {name: _FIRST_TEMPERATURE + at for at, name in enumerate(TEMPERATURES)}
_HISTOGRAM_CELLS: Final = {
    name: _FIRST_HISTOGRAM + at * BUCKETS for at, name in enumerate(HISTOGRAMS)
}
_WIDTHS: Final[Mapping[int, type[np.unsignedinteger]]] = {
    1: np.uint8,
    2: np.uint16,
    4: np.uint32,
    8: np.uint64,
}
_INDEX: Final = np.dtype("<u2")


def cells_of(
    pair: tuple[str, str], temperature: str, took_ms: Mapping[str, float], age_ms: float
) -> list[int]:
    """The cells that one search adds one to.

    Raises:
        KeyError: there is no such state or temperature.
    """
    found = [_PAIR_CELLS[pair], _TEMPERATURE_CELLS[temperature]]
    found += [
        _HISTOGRAM_CELLS[name] + bisect_left(BOUNDS_MS, spent_ms)
        for name, spent_ms in took_ms.items()
        if name in _HISTOGRAM_CELLS
    ]
    found.append(_HISTOGRAM_CELLS[AGE] + bisect_left(BOUNDS_MS, age_ms))
    return found


def states(counts: Counts) -> dict[tuple[str, str], int]:
    """Searches by (state, reason), without zeros."""
    return {pair: int(counts[at]) for pair, at in _PAIR_CELLS.items() if counts[at]}


def temperatures(counts: Counts) -> dict[str, int]:
    """Searches by temperature."""
    return {name: int(counts[at]) for name, at in _TEMPERATURE_CELLS.items()}


def searches(counts: Counts) -> int:
    """How many searches a row counts."""
    return int(counts[: len(PAIRS)].sum())


def histogram(counts: Counts, name: str) -> Counts:
    """One histogram of a row: `BUCKETS` numbers."""
    first = _HISTOGRAM_CELLS[name]
    return counts[first : first + BUCKETS]


def percentile_ms(buckets: Counts, share: float) -> float | None:
    """The value that this share of what was counted does not exceed; None when nothing was.

    Inside a bucket values are taken to be spread evenly by their logarithm; in the first, which
    begins at 0, evenly. Those of the last are taken for its lower bound.

    Args:
        buckets: a histogram.
        share: in (0, 1].
    """
    total = int(buckets.sum())
    if not total:
        return None
    cumulated = np.cumsum(buckets)
    rank = share * total
    at = int(np.searchsorted(cumulated, rank))
    if at >= len(BOUNDS_MS):
        return float(BOUNDS_MS[-1])
    before = int(cumulated[at - 1]) if at else 0
    inside = (rank - before) / int(buckets[at])
    high = BOUNDS_MS[at]
    if not at:
        return float(inside * high)
    low = BOUNDS_MS[at - 1]
    return float(low * (high / low) ** inside)


def encode(counts: Counts) -> bytes:
    """A row as bytes: how wide its numbers are, which cells, the numbers; little-endian."""
    at = np.flatnonzero(counts)
    values = counts[at]
    most = int(values.max(initial=0))
    width = next(width for width in _WIDTHS if most < 1 << (8 * width))
    dtype = np.dtype(_WIDTHS[width]).newbyteorder("<")
    return bytes([width]) + at.astype(_INDEX).tobytes() + values.astype(dtype).tobytes()


def decode(row: bytes) -> Counts:
    """A row again."""
    counts: Counts = summed([(0, row)], 1)[0]
    return counts


def summed(rows: Iterable[tuple[int, bytes]], groups: int) -> Counts:
    """Sums of many rows at once.

    Args:
        rows: (group, row).
        groups: how many groups there are.

    Returns:
        Of shape `(groups, CELLS)`.
    """
    by_width: dict[int, tuple[list[int], list[bytes]]] = {}
    for group, row in rows:
        owners, parts = by_width.setdefault(row[0], ([], []))
        owners.append(group)
        parts.append(row)
    total = np.zeros(groups * CELLS)
    for width, (owners, parts) in by_width.items():
        total += _summed(width, owners, parts, groups * CELLS)
    return total.astype(np.int64).reshape(groups, CELLS)


def _summed(
    width: int, owners: Sequence[int], parts: Sequence[bytes], cells: int
) -> npt.NDArray[np.float64]:
    sizes = [(len(part) - 1) // (_INDEX.itemsize + width) for part in parts]
    splits = [1 + size * _INDEX.itemsize for size in sizes]
    at = np.frombuffer(
        b"".join([part[1:split] for part, split in zip(parts, splits, strict=True)]), _INDEX
    )
    values = np.frombuffer(
        b"".join([part[split:] for part, split in zip(parts, splits, strict=True)]),
        np.dtype(_WIDTHS[width]).newbyteorder("<"),
    )
    first = np.repeat(np.asarray(owners, np.int64) * CELLS, sizes)
    # Sums of doubles are exact up to 2^53.
    return np.bincount(first + at, weights=values, minlength=cells).astype(np.float64)
