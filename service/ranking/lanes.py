"""From posting lists to a pool of candidates, by set arithmetic alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

#: Candidates that are scored together. Deep pages go on with the next tier of this size.
TIER = 300
#: Postings that lane B reads, rarest terms first: cost stays flat as the index grows.
POSTING_BUDGET = 5_000
#: A term in more than this share of the documents stays out of lane B,
GATE_SHARE = 0.15
#: unless the index is so small that even such a term has few postings.
GATE_LEAST = 1_000

#: Postings that one scan may step over (about 16 ns each); a longer one covers the newest rows.
WALK_LIMIT = 40_000
#: Where all terms meet their positions are compared, which costs as much as so many postings.
MEETING_COST = 6


@dataclasses.dataclass(frozen=True, slots=True)
class Posting:
    """Documents that hold something, and what holding it is worth in the first cut."""

    ids: Ids
    worth: float


def gated(frequency: int, docs: int) -> bool:
    """Whether a term is too common to bring candidates by itself."""
    return frequency > max(GATE_LEAST, GATE_SHARE * docs)


def walk(frequencies: Sequence[int]) -> int:
    """Postings that a scan for documents with all of these terms steps over, about."""
    return sum(frequencies) + MEETING_COST * min(frequencies, default=0)


def floor(walked: int, last_row: int, limit: int = WALK_LIMIT) -> int:
    """The row above which a scan stays within its limit: terms are as dense here as there."""
    return 0 if walked <= limit else int(last_row * (1 - limit / walked))


def among(rows: Ids, others: Ids) -> NDArray[np.bool_]:
    """Which of the rows (n,) are among others, bool (n,); both are rising."""
    if not len(others):
        return np.zeros(len(rows), dtype=np.bool_)
    at = np.minimum(others.searchsorted(rows), len(others) - 1)
    return np.asarray(others[at] == rows)


def pool(postings: Sequence[Posting], tier: int = 0, size: int = TIER) -> tuple[Ids, bool]:
    """Merge postings and cut one tier of candidates.

    Args:
        postings: lists of row ids; within one list an id stands once.
        tier: 0 for the best `size` candidates by summed worth, 1 for the next, and so on.
        size: candidates in a tier.

    Returns:
        Row ids (n,), ascending, n <= size, and whether a further tier has any. Equal worth is
        decided by the higher row id, so tiers never overlap and never leave a gap.
    """
    lists = [posting.ids for posting in postings if len(posting.ids)]
    if not lists:
        return np.empty(0, dtype=np.int64), False
    every = np.concatenate(lists)
    # Scans come in order, and a stable sort merges runs: seven times faster than to sort anew.
    order = every.argsort(kind="stable")
    rows = every[order]
    firsts = np.flatnonzero(np.append(True, rows[1:] != rows[:-1]))
    ids = rows[firsts]
    wanted = (tier + 1) * size
    if len(ids) <= size and tier == 0:
        return ids, False
    worth = np.repeat(
        [posting.worth for posting in postings if len(posting.ids)], [len(ids) for ids in lists]
    )
    total = np.add.reduceat(worth[order], firsts)
    if len(ids) > wanted:
        # All that the cut can choose from: few, where sorting everything would cost most.
        least = np.partition(total, len(ids) - wanted)[len(ids) - wanted]
        leading = np.flatnonzero(total >= least)
    else:
        leading = np.arange(len(ids))
    order = leading[np.lexsort((-ids[leading], -total[leading]))]
    chosen = order[tier * size : wanted]
    return np.sort(ids[chosen]), len(ids) > wanted
