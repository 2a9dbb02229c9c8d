"""Vectors reorder what the keyword lanes found; they find nothing themselves.

The cosine of a candidate is that of its closest passage. Cosines of one model lie in a narrow band
(multilingual-e5-small: unrelated texts at .67, answers at .83), so they are stretched over the pool
by minimum and maximum, and count for less where the pool itself is narrower than `FULL_SPREAD`:
then they only tell equally good candidates apart. The result is one more component of the additive
score, in [0, 1]:

* a candidate without a vector is neutral: as good as the middle of the pool;
* a document that holds an identifier that was typed is as close as can be, so it is never overtaken
  by a lookalike, and two of them never swap;
* the first candidates by keyword fall by at most `FALL_MOST` places.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from service.ranking.scoring import Floats, order

Vectors = NDArray[np.int8]
Ids = NDArray[np.int64]

COMPONENT: Final = "semantic"
#: Candidates whose vectors are read: the best by keyword.
POOL: Final = 250
#: What the component weighs when a tenant does not say otherwise; `golden rescoring` decides.
WEIGHT: Final = 0.25
#: The difference of cosines over a pool from which on they count in full.
FULL_SPREAD: Final = 0.06
NEUTRAL: Final = 0.5
CLOSEST: Final = 1.0
#: From this worth of the component `identifier` on, a document holds what was typed as it stands.
EXACT_FROM: Final = 0.6
#: The demotion cap: so many first candidates by keyword fall by so many places at most.
CAPPED: Final = 10
FALL_MOST: Final = 5
#: Above the rounding of a sum of weighted components, below any difference that means something.
_MARGIN: Final = 1e-9


def cosines(query: Vectors, passages: Vectors, owners: Ids, count: int) -> Floats:
    """The cosine of each candidate's closest passage.

    Int8 vectors are `x / max|x| * 127`, rounded; the scale cancels out. Products are summed in
    float32, which is exact up to 1,040 dimensions (127 * 127 * 1,040 < 2**24).

    Args:
        query: int8 (dims,).
        passages: int8 (m, dims).
        owners: int64 (m,), the place of each passage's candidate in [0, count), never falling.
        count: candidates.

    Returns:
        float64 (count,); NaN where a candidate has no passage, or none with a direction.
    """
    found = np.full(count, np.nan)
    if not len(owners):
        return found
    wanted, matrix = query.astype(np.float32), passages.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", matrix, matrix) * (wanted @ wanted))
    with np.errstate(invalid="ignore", divide="ignore"):
        each = np.where(lengths > 0, (matrix @ wanted) / lengths, -np.inf)
    begins = np.flatnonzero(np.r_[True, owners[1:] != owners[:-1]])
    best = np.maximum.reduceat(each, begins)
    found[owners[begins]] = np.where(np.isfinite(best), best, np.nan)
    return found


def closeness(cosine: Floats) -> Floats:
    """Cosines stretched over the pool, in [0, 1]; NaN becomes neutral.

    Args:
        cosine: float64 (n,).

    Returns:
        float64 (n,); all neutral when they do not tell any two candidates apart.
    """
    close = np.full(len(cosine), NEUTRAL)
    known = ~np.isnan(cosine)
    if not known.any():
        return close
    low, high = cosine[known].min(), cosine[known].max()
    if (spread := high - low) > 0:
        confidence = min(1.0, spread / FULL_SPREAD)
        close[known] += confidence * ((cosine[known] - low) / spread - NEUTRAL)
    return np.asarray(np.clip(close, 0.0, 1.0), dtype=np.float64)


def component(
    cosine: Floats, keyword: Floats, exact: NDArray[np.bool_], ids: Ids, weight: float
) -> Floats:
    """The component `semantic` of a pool, in [0, 1].

    Args:
        cosine: float64 (n,), NaN where there is no vector.
        keyword: float64 (n,), the score without it.
        exact: bool (n,), holds an identifier that was typed.
        ids: row ids (n,), which decide between equal scores.
        weight: what the component will weigh.

    Returns:
        float64 (n,).
    """
    close = closeness(cosine)
    close[exact] = CLOSEST
    if weight <= 0:
        return close
    first = order(keyword, ids)[:CAPPED].tolist()
    # One that is lifted may pass an equal one before it that was not: then that one is lifted in
    # the next round.
    for _ in first:
        if not _lift(close, keyword, ids, weight, first):
            break
    return close


def _lift(close: Floats, keyword: Floats, ids: Ids, weight: float, first: list[int]) -> bool:
    """Lift those of the first that have fallen too far; whether there were any."""
    any_lifted = False
    for place, candidate in enumerate(first):
        total = keyword + weight * close
        ranked = order(total, ids)
        last = min(place + FALL_MOST, len(ids) - 1)
        if (total[candidate], ids[candidate]) >= (total[ranked[last]], ids[ranked[last]]):
            continue
        # The better one by keyword is lifted a little further, so none lifted later passes it. At
        # most `place` candidates have more by keyword, so no more than the closest there is can be
        # needed.
        lifted = total[ranked[last]] + (CAPPED - place) * _MARGIN
        close[candidate] = min((lifted - keyword[candidate]) / weight, CLOSEST)
        any_lifted = True
    return any_lifted
