"""The candidates of a query side by side: what each holds of it, as components of the score."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.index.reader import IndexReader
from service.ranking import evidence, lanes, scoring
from service.ranking.sheet import Sheets
from service.ranking.terms import PREFIX_MARK, Unit, expression
from service.search import identifiers
from service.search.lookups import Plan
from service.search.phrases import SCAN_MOST, Flags, Phrases
from service.search.postings import Ids, Postings


class Candidates:
    """A pool of rows of one snapshot, in rising order.

    Attributes:
        ids: row ids (n,), n >= 1.
        sheets: their term sheets.
    """

    def __init__(self, reader: IndexReader, ids: Ids, postings: Postings) -> None:
        rows: Any = reader.connection.execute(
            "SELECT sheet FROM json_each(?) AS wanted"
            " JOIN doc_sheet ON doc_sheet.id = wanted.value",
            (json.dumps(ids.tolist()),),
        )
        self.ids = ids
        self.sheets = Sheets(sheet for (sheet,) in rows)
        self._reader = reader
        self._postings = postings
        self._phrases = Phrases(reader.connection, ids, self.sheets, postings)

    def components(
        self, plan: Plan, matches: Mapping[int, identifiers.Match], *, whole: bool
    ) -> dict[str, scoring.Floats]:
        """Every component of the score, float64 (n,) each.

        Args:
            plan: what was looked for.
            matches: identifier matches by row.
            whole: the plan is about the whole query, not the part of it that says most.
        """
        n = len(self.ids)
        own = [matches.get(row, identifiers.NO_MATCH) for row in self.ids.tolist()]
        names = ("strict", "relaxed", "coverage", "title", "density", "phrase")
        components = dict.fromkeys(names, np.zeros(n))
        components["identifier"] = np.array([match.worth for match in own])
        components["ref"] = np.array([match.own for match in own])
        components["recency"] = scoring.recency(self.sheets.updated_s, self._reader.committed_at)
        if not plan.units:
            return components
        found = self._evidence(plan, whole=whole)
        asked = sum(max(1, len(unit.parts)) for unit in plan.units)
        components["strict"] = np.where(found.whole, found.relaxed, 0.0)
        components["relaxed"] = found.relaxed
        components["coverage"] = found.coverage
        components["title"] = found.title
        components["density"] = np.minimum(
            1.0, found.title * asked / np.maximum(self.sheets.title_length, 1.0)
        )
        if len(plan.units) > 1 and whole:
            components["phrase"] = self._phrase(found.whole, plan.units)
        return components

    # --- inside

    def _evidence(self, plan: Plan, *, whole: bool) -> evidence.Evidence:
        meta, docs = self._reader.meta, max(self._reader.docs, 1)
        sheets = self.sheets
        lengths = scoring.Lengths.of(
            sheets.title_length,
            sheets.body_length,
            meta["title_terms"] / docs,
            meta["body_terms"] / docs,
        )
        asked = {term for unit in plan.units for term in (unit.text, *unit.parts)} if whole else ()
        found = (term for lookup in plan.lookups for term in lookup.term.split(" "))
        sheets.look_up((*found, *asked))
        return evidence.gather(
            plan.units,
            plan.lookups,
            sheets,
            lengths,
            phrases={
                place: self._phrases.held(unit.parts)
                for place, unit in enumerate(plan.units)
                # In a long text no single word's letter is worth a walk through its parts.
                if whole and len(unit.parts) > 1
            },
            members={
                lookup.term: self._matches(lookup.term)
                for lookup in plan.lookups
                if " " in lookup.term
            },
            docs=docs,
        )

    def _phrase(self, whole: Flags, units: Sequence[Unit]) -> scoring.Floats:
        """1 where the query stands as one phrase, a little less where only its parts do."""
        parts = [part for unit in units for part in (unit.parts or (unit.text,))]
        as_typed = self._phrases.held([unit.text for unit in units], whole)
        return np.where(as_typed, 1.0, 0.9 * self._phrases.held(parts, whole))

    def _matches(self, term: str) -> Flags:
        """Which rows hold a looked-up term that no sheet can tell."""
        if not term.endswith(PREFIX_MARK):
            return self._phrases.held(term.split(" "))
        found = self._postings.ids(
            expression(term), SCAN_MOST, above=int(self.ids[0]) - 1, few=True
        )
        return lanes.among(self.ids, found[::-1])
