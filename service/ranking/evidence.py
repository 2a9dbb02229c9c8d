"""What each candidate holds of the query, read from the term sheets with numpy."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from service.ranking import scoring
from service.ranking.common import shares
from service.ranking.sheet import Sheets
from service.ranking.terms import Unit, Way

#: What a unit counts for when only its parts are there, all of them, but not side by side.
PARTS_SHARE = 0.8
#: The same for a Korean word, whose parts overlap and so nearly spell it.
HANGUL_PARTS_SHARE = 0.9
#: Ways that are forms of the typed word, counted together.
FORMS = ("exact", "inflection", "relative")
#: A unit nobody wrote still counts in the coverage, for this share of the rarest term's weight.
UNKNOWN_SHARE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class Lookup:
    """A term that was looked up for a unit.

    Attributes:
        unit: place of the unit in the query.
        term: as it stands in the index; of two words when it must stand as a phrase.
        weight: 1.0 for what was typed, less for what may stand for it.
        frequency: documents that hold it.
        way: how it came from the unit.
    """

    unit: int
    term: str
    weight: float
    frequency: int
    way: Way


@dataclasses.dataclass(frozen=True, slots=True)
class Evidence:
    """Shares in [0, 1], float64 (n,) each; `whole` is bool (n,): every unit found as typed."""

    relaxed: scoring.Floats
    coverage: scoring.Floats
    title: scoring.Floats
    whole: NDArray[np.bool_]


class _UnitEvidence:
    """One unit's part of the evidence."""

    def __init__(self, unit: Unit, n: int) -> None:
        self.unit = unit
        self.typed = np.zeros(n)
        self.typed_most = 0.0
        self.bent = np.zeros(n)
        self.bent_most = 0.0
        self.here = np.zeros(n)
        self.in_title = np.zeros(n)
        self.word_title = np.zeros(n, dtype=np.float32)
        self.word_body = np.zeros(n, dtype=np.float32)
        self.word_frequency = 0
        self.word_share = 0.0
        self.parts_here = np.zeros(n)
        self.parts_title = np.zeros(n)
        self.parts_weight = 0.0
        self.weight = 0.0

    def add(
        self,
        lookup: Lookup,
        rarity: float,
        title: NDArray[np.float32],
        body: NDArray[np.float32],
        lengths: scoring.Lengths,
    ) -> None:
        in_title, here = title > 0, (title > 0) | (body > 0)
        if lookup.way in FORMS:
            self._count(lookup, title, body)
        gain = lookup.weight * rarity * scoring.saturation(title, body, lengths)
        if lookup.way == "part":
            self.typed += gain
            self.typed_most += lookup.weight * rarity
            counted = rarity * self.unit.share_of(lookup.term)
            self.parts_here += counted * here
            self.parts_title += counted * in_title
            self.parts_weight += counted
            return
        if lookup.way not in FORMS:
            self.bent = np.maximum(self.bent, gain)
            self.bent_most = max(self.bent_most, lookup.weight * rarity)
        share = 1.0 if lookup.way == "exact" else lookup.weight
        self.here = np.maximum(self.here, share * here)
        self.in_title = np.maximum(self.in_title, share * in_title)
        self.weight = max(self.weight, share * rarity)

    def _count(self, lookup: Lookup, title: NDArray[np.float32], body: NDArray[np.float32]) -> None:
        """Forms of one word are one term, as a stemmer would have it, but the typed one leads."""
        self.word_title = self.word_title + lookup.weight * title
        self.word_body = self.word_body + lookup.weight * body
        self.word_frequency += lookup.frequency
        self.word_share = max(self.word_share, lookup.weight)

    def close(
        self,
        phrase: NDArray[np.bool_] | None,
        unknown: float,
        lengths: scoring.Lengths,
        docs: int,
    ) -> None:
        """Fold the parts in; `phrase` marks candidates where they stand side by side."""
        if self.word_frequency:
            rarity = self.word_share * scoring.idf(self.word_frequency, docs)
            self.typed += rarity * scoring.saturation(self.word_title, self.word_body, lengths)
            self.typed_most += rarity
        if self.parts_weight:
            most = HANGUL_PARTS_SHARE if self.unit.hangul else PARTS_SHARE
            share = most / self.parts_weight
            parts_here, parts_title = self.parts_here * share, self.parts_title * share
            if phrase is not None:
                all_in_title = parts_title >= most - 1e-9
                parts_here = np.where(phrase, 1.0, parts_here)
                parts_title = np.where(phrase & all_in_title, 1.0, parts_title)
            self.here = np.maximum(self.here, parts_here)
            self.in_title = np.maximum(self.in_title, parts_title)
            # Overlapping or sibling parts are not independent evidence: their weights grow with
            # the square root of their number only.
            self.weight = max(self.weight, self.parts_weight / len(self.unit.parts) ** 0.5)
        if self.weight == 0.0:
            self.weight = unknown


def gather(
    units: Sequence[Unit],
    lookups: Sequence[Lookup],
    sheets: Sheets,
    lengths: scoring.Lengths,
    phrases: Mapping[int, NDArray[np.bool_]],
    members: Mapping[str, NDArray[np.bool_]],
    docs: int,
) -> Evidence:
    """Gather the evidence of a pool of n candidates.

    Args:
        units: the query.
        lookups: the terms looked up for them.
        sheets: the candidates' term sheets.
        lengths: their length normalisation.
        phrases: by unit, bool (n,): its parts stand side by side.
        members: by term, bool (n,): candidates that hold a term which no sheet can tell, such as
            a phrase or a prefix.
        docs: documents in the index.
    """
    n = sheets.count
    parts = [_UnitEvidence(unit, n) for unit in units]
    for lookup in lookups:
        if lookup.term in members:
            title, body = np.zeros(n, dtype=np.float32), members[lookup.term].astype(np.float32)
        else:
            title, body = sheets.counts(lookup.term)
        rarity = scoring.idf(lookup.frequency, docs)
        parts[lookup.unit].add(lookup, rarity, title, body, lengths)
    for place, part in enumerate(parts):
        part.close(phrases.get(place), UNKNOWN_SHARE * scoring.idf(0, docs), lengths, docs)
    count = shares([unit.text for unit in units])
    most = sum(
        share * max(part.typed_most, part.bent_most)
        for share, part in zip(count, parts, strict=True)
    )
    weights = np.array([s * part.weight for s, part in zip(count, parts, strict=True)])
    here = np.stack([part.here for part in parts])
    in_title = np.stack([part.in_title for part in parts])
    gains = [
        share * np.maximum(part.typed, part.bent) for share, part in zip(count, parts, strict=True)
    ]
    return Evidence(
        relaxed=np.sum(gains, axis=0) / (most or 1.0),
        coverage=weights @ here / weights.sum(),
        title=weights @ in_title / weights.sum(),
        whole=np.all(here > 1 - 1e-9, axis=0),
    )
