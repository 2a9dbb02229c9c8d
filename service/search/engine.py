"""One query over one open index: read it, find candidates, score them, cut a page."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from service.index.reader import IndexReader
from service.ranking import lanes, rescore, scoring
from service.ranking.terms import Unit, group, quote, strict_expression
from service.search import cursor, identifiers, lookups, page
from service.search.candidates import Candidates
from service.search.postings import NOTHING, Ids, Memory, Postings, Scope
from service.search.request import Part, SearchRequest, SearchResult
from service.search.rescoring import Pool, Rescored, Rescorer
from service.search.strict import strict as strict_lane
from service.search.vocabulary import Vocabulary
from service.text import ParsedQuery, parse_query, tokenize

#: Worth in the first cut, against the summed rarities (at most about 15) of lane B.
STRICT_WORTH = 20.0
IDENTIFIER_WORTH = 1_000.0
#: Terms that bring at least this many documents also say which hold them in the title; of other
#: forms of a word that costs 0.1 ms each and changed no figure of a judged set.
TITLE_SCAN_FROM = lanes.TIER // 4
OTHER_FORMS = ("inflection", "relative")
#: Units of a query that are looked at; `read_as` says what was dropped.
UNITS = 64


@dataclasses.dataclass(frozen=True, slots=True)
class _Reading:
    """How a query was read."""

    parsed: ParsedQuery
    units: list[Unit]
    dropped: list[str]
    scope: Scope
    required: list[str]
    excluded: list[str]
    nowhere: tuple[str, ...] = ()

    def without_phrases(self) -> _Reading:
        """The same words, none of which must stand together."""
        return dataclasses.replace(self, required=[], nowhere=self.parsed.phrases)

    def shown(self, left_out: list[str]) -> dict[str, Any]:
        return {
            "terms": [unit.text for unit in self.units],
            "phrases": [phrase for phrase in self.parsed.phrases if phrase not in self.nowhere],
            "phrases_nowhere": list(self.nowhere),
            "excluded": list(self.parsed.excluded),
            "kinds": list(self.scope.kinds),
            "updated_after": self.scope.updated_after_ms,
            "updated_before": self.scope.updated_before_ms,
            "dropped": left_out + self.dropped,
        }


class _Clock:
    """Wall time by phase, in ms."""

    def __init__(self) -> None:
        self.took_ms: dict[str, float] = {}
        self.parts: list[Part] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        end = time.perf_counter()
        self.parts.append((name, start, end))
        spent = (end - start) * 1000
        self.took_ms[name] = round(self.took_ms.get(name, 0.0) + spent, 3)


def search(
    reader: IndexReader, request: SearchRequest, rescorer: Rescorer | None = None
) -> SearchResult:
    """Answer one search from the reader's current snapshot.

    The order is total and the same for the same snapshot, so pages neither repeat nor drop. Pages
    after one that was not rescored are not rescored either; when a page after a rescored one cannot
    be, it may repeat hits.

    Args:
        reader: inside its snapshot.
        request: what is asked.
        rescorer: reorders the best candidates by their vectors; without it, or when it declines,
            the order is that of the keywords alone.

    Raises:
        InvalidCursor: the cursor is not one of ours or belongs to another query.
    """
    clock = _Clock()
    place = cursor.decode(request)
    reading = _read(request)
    explain: dict[str, Any] | None = {} if request.explain else None
    with clock.phase("lanes"):
        finder = _Finder(reader, reading)
    if rescorer is not None and place.seen and not place.rescored:
        rescorer.decline()
        rescorer = None
    ranked: list[page.Ranked] = []
    tier, more = place.tier, True
    while len(ranked) <= request.limit and more:
        with clock.phase("lanes"):
            ids, more = finder.candidates(tier)
        with clock.phase("score"):
            since = place if tier == place.tier else cursor.START
            most = request.limit + 1 - len(ranked)
            ranked += finder.rank(ids, tier, since, most, None if tier else rescorer)
        tier += 1
    with clock.phase("snippets"):
        hits = page.hits(reader.connection, ranked[: request.limit], finder.terms)

    def after(count: int) -> str | None:
        seen = place.seen + count
        if not count:
            return request.cursor
        if len(ranked) <= count or seen >= page.DEPTH:
            return None
        last = ranked[count - 1]
        rescored = place.rescored or finder.rescored is not None
        return cursor.encode(cursor.Place(last.tier, last.score, last.row, seen, rescored), request)

    if explain is not None:
        explain |= finder.explain()
    return SearchResult(
        hits=hits,
        cursor=after(len(hits)) if hits else None,
        after=after,
        read_as=finder.reading.shown(finder.left_out),
        explain=explain,
        took_ms=clock.took_ms,
        parts=tuple(clock.parts),
    )


def _read(request: SearchRequest) -> _Reading:
    parsed = parse_query(request.q)
    units = _units(parsed.text)
    scope = Scope(
        kinds=tuple(dict.fromkeys((*request.kinds, *parsed.kinds))),
        refs=request.refs,
        updated_after_ms=_latest(request.updated_after_ms, parsed.updated_after_ms),
        updated_before_ms=_earliest(request.updated_before_ms, parsed.updated_before_ms),
    )
    return _Reading(
        parsed=parsed,
        units=units[:UNITS],
        dropped=[unit.text for unit in units[UNITS:]],
        scope=scope,
        required=[e for e in map(_phrase_expression, parsed.phrases) if e],
        excluded=[e for e in map(_phrase_expression, parsed.excluded) if e],
    )


def _units(text: str) -> list[Unit]:
    streams = tokenize(text)
    return group(streams.orig, streams.sub)


def _phrase_expression(text: str) -> str:
    """What a quoted phrase, or an excluded word, matches."""
    units = _units(text)
    if len(units) < 2:
        return strict_expression(units[0]) if units else ""
    ways = [quote(unit.text for unit in units)]
    ways.append(quote(part for unit in units for part in (unit.parts or (unit.text,))))
    return "(" + " OR ".join(dict.fromkeys(ways)) + ")"


def _latest(*times: int | None) -> int | None:
    return max((time for time in times if time is not None), default=None)


def _earliest(*times: int | None) -> int | None:
    return min((time for time in times if time is not None), default=None)


class _Finder:
    """The lanes and the scoring of one query on one snapshot."""

    def __init__(self, reader: IndexReader, reading: _Reading) -> None:
        self._reader = reader
        self.rescored: Rescored | None = None
        self._postings = self._postings_of(reading)
        if self._postings.barren:
            # A sentence in quotes that nobody wrote so: its words may still find what is meant.
            reading = reading.without_phrases()
            self._postings = self._postings_of(reading)
        self.reading = reading
        vocabulary = Vocabulary(reader.connection, reader.remembered.setdefault("forms", {}))
        units = lookups.focus(reading.units, self._postings)
        self._whole = len(units) == len(reading.units)
        self._plan = lookups.plan(units, self._postings, vocabulary)
        self._identifiers = self._postings.keep(
            identifiers.find(reader.connection, reading.parsed.text, reading.scope)
        )
        self._lists = self._gather()

    def _postings_of(self, reading: _Reading) -> Postings:
        return Postings(
            self._reader.connection,
            reading.scope,
            required=reading.required,
            excluded=reading.excluded,
            memory=self._reader.remembered.setdefault("postings", Memory()),
        )

    @property
    def terms(self) -> frozenset[str]:
        """Every term that a hit may be found by, for its snippet."""
        units = self._plan.units
        looked_up = (term for lookup in self._plan.lookups for term in lookup.term.split(" "))
        # A run of a spaceless script is seen by its parts, wherever it stands in a longer run.
        runs = {u.text for u in units if len(u.parts) > 1 and not u.text.isascii()}
        return frozenset(looked_up).union(u.text for u in units) - runs

    def candidates(self, tier: int) -> tuple[Ids, bool]:
        """One tier of row ids, and whether there are more."""
        if not self._plan.units:
            return self._recent(tier)
        return lanes.pool(self._lists, tier)

    def rank(
        self, ids: Ids, tier: int, after: cursor.Place, most: int, rescorer: Rescorer | None
    ) -> list[page.Ranked]:
        """Score candidates, put them in order, and give the first ones after a place."""
        if not len(ids):
            return []
        found = Candidates(self._reader, ids, self._postings)
        components = found.components(self._plan, self._identifiers, whole=self._whole)
        score = scoring.total(components)
        if rescorer is not None:
            self.rescored = rescorer(Pool.of(ids, score, components["identifier"]))
        if self.rescored is not None and not tier:
            components[rescore.COMPONENT] = self.rescored.component
            score = score + self.rescored.weight * self.rescored.component
        order = scoring.order(score, ids)
        seen = (score > after.score) | ((score == after.score) & (ids >= after.row))
        return [
            page.Ranked(
                tier=tier,
                row=int(ids[at]),
                score=float(score[at]),
                tokens=int(found.sheets.tokens[at]),
                components={name: float(values[at]) for name, values in components.items()},
            )
            for at in order[~seen[order]][:most].tolist()
        ]

    @property
    def left_out(self) -> list[str]:
        """Words of a long query that others outweigh."""
        kept = {unit.text for unit in self._plan.units}
        return [unit.text for unit in self.reading.units if unit.text not in kept]

    def explain(self) -> dict[str, Any]:
        """What each lane found."""
        strict = len(strict_lane(self._plan, self._postings))
        return {
            "docs": self._reader.docs,
            "strict": strict,
            "identifiers": len(self._identifiers),
            "lookups": [dataclasses.asdict(lookup) for lookup in self._plan.lookups],
            "weights": dict(scoring.WEIGHTS)
            | ({rescore.COMPONENT: self.rescored.weight} if self.rescored else {}),
            "scans": self._postings.scans,
        }

    # --- lanes

    def _gather(self) -> list[lanes.Posting]:
        rows = np.array(list(self._identifiers), dtype=np.int64)
        lists = [lanes.Posting(rows, IDENTIFIER_WORTH)]
        if not self._plan.units:
            return lists
        lists.append(lanes.Posting(strict_lane(self._plan, self._postings), STRICT_WORTH))
        budget = lanes.POSTING_BUDGET
        docs = self._reader.docs
        rarest_first = sorted(self._plan.lookups, key=lambda lookup: lookup.frequency)
        for place, lookup in enumerate(rarest_first):
            if budget <= 0 or (place and lanes.gated(lookup.frequency, docs)):
                break
            found = self._postings.holding(lookup.term)[:budget]
            budget -= len(found)
            worth = lookup.weight * scoring.idf(lookup.frequency, docs)
            lists.append(lanes.Posting(found, worth))
            if lookup.frequency >= TITLE_SCAN_FROM and lookup.way not in OTHER_FORMS:
                in_title = self._postings.in_title(lookup.term, lanes.TIER)
                lists.append(lanes.Posting(in_title, worth))
        return lists

    def _recent(self, tier: int) -> tuple[Ids, bool]:
        """A query of filters alone: the newest documents within them."""
        if not (self.reading.scope or self.reading.required):
            return NOTHING, False
        found = self._postings.recent(lanes.TIER + 1, offset=tier * lanes.TIER)
        return np.sort(found[: lanes.TIER]), len(found) > lanes.TIER
