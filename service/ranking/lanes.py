"""From posting lists to a pool of candidates, by set arithmetic alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

#: Candidates that are scored together. Deep pages go on with the next tier of this size.
TIER = 400
#: Postings that lane B reads, rarest terms first: cost stays flat as the index grows.
POSTING_BUDGET = 8_000
#: A term in more than this share of the documents stays out of lane B,
GATE_SHARE = 0.15
#: unless the index is so small that even such a term has few postings.
GATE_LEAST = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Posting:
    """Documents that hold something, and what holding it is worth in the first cut."""

    ids: Ids
    worth: float


def gated(frequency: int, docs: int) -> bool:
    """Whether a term is too common to bring candidates by itself."""
    return frequency > max(GATE_LEAST, GATE_SHARE * docs)


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
    worth = np.repeat(
        [posting.worth for posting in postings if len(posting.ids)], [len(ids) for ids in lists]
    )
    ids, place = np.unique(np.concatenate(lists), return_inverse=True)
    if len(ids) <= size and tier == 0:
        return ids, False
    total = np.bincount(place, weights=worth)
    order = np.lexsort((-ids, -total))
    chosen = order[tier * size : (tier + 1) * size]
    return np.sort(ids[chosen]), len(order) > (tier + 1) * size
