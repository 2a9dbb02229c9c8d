"""Lane A: documents that hold every uncommon word of a query."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from service.ranking import lanes
from service.ranking.evidence import Lookup
from service.search.lookups import Plan
from service.search.postings import NOTHING, Ids, Postings

#: Documents that the lane brings, for a query of at most so many uncommon units.
LIMIT = 1_000
UNITS = 8
#: So few documents that hold the rarer units are all taken: to ask which of them hold the common
#: ones too costs more than it tells.
ENOUGH = 100


def strict(plan: Plan, postings: Postings) -> Ids:
    """Row ids of documents that hold every uncommon unit, in no order.

    Where the units whose postings are all known leave only a few documents, these are taken, a few
    without the other units among them. As in `Postings.together`, common words are looked for in
    the newest rows; a document that holds all of a long query is among those of its rarest words
    anyway.
    """
    if not plan.asked or len(plan.asked) > UNITS:
        return NOTHING
    by_unit: dict[int, list[Lookup]] = {place: [] for place in plan.asked}
    for lookup in plan.lookups:
        if lookup.unit in by_unit:
            by_unit[lookup.unit].append(lookup)
    known = [_known(each, postings) for each in by_unit.values()]
    few = _meeting([ids for ids in known if ids is not None])
    if few is not None and len(few) <= ENOUGH:
        return few
    frequencies = [
        sum(lookup.frequency for lookup in each if lookup.way != "part")
        for each in by_unit.values()
    ]
    floor = postings.floor(lanes.walk(frequencies))
    return postings.ids(" AND ".join(plan.asked.values()), LIMIT, above=floor, few=True)


def _known(lookups: Iterable[Lookup], postings: Postings) -> Ids | None:
    """All documents that hold a unit, a few more where its parts stand apart; None if too many."""
    ways: list[Ids] = []
    parts: list[Ids] = []
    is_cut = False
    for lookup in lookups:
        found = postings.all_holding(lookup.term)
        if lookup.way == "part":
            is_cut = True
            parts += [] if found is None else [found]
        elif found is None:
            return None
        else:
            ways.append(found)
    if is_cut:
        if not parts:
            return None
        ways.append(min(parts, key=len))
    if len(ways) > 1:
        return np.unique(np.concatenate(ways))
    return ways[0][::-1] if ways else NOTHING


def _meeting(lists: Sequence[Ids]) -> Ids | None:
    """What is in all of the lists, each rising; None without any."""
    shortest_first = sorted(lists, key=len)
    if not shortest_first:
        return None
    held = shortest_first[0]
    for other in shortest_first[1:]:
        held = held[lanes.among(held, other)]
    return held
