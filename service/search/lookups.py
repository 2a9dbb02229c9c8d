"""From a query's units to the terms that the index knows for them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

from service.ranking import forgive
from service.ranking.common import shares
from service.ranking.evidence import Lookup
from service.ranking.terms import Alternative, Unit, expression, prefix, quote, strict_expression
from service.search.postings import Postings
from service.search.vocabulary import Vocabulary

#: What stands for a typed word counts this share of it.
PART_WEIGHT = 0.5
INFLECTION_WEIGHT = 0.6
PREFIX_WEIGHT = 0.8
COMPOUND_WEIGHT = 0.9
TYPO_WEIGHT = 0.7
TWO_EDIT_WEIGHT = 0.6

#: A last word that fewer documents hold may be unfinished.
PREFIX_FREQUENCY = 3
#: Words of a query, and terms they are cut into, that are looked up in full; and how far a word is
#: scanned to choose them.
FOCUS_UNITS = 16
FOCUS_TERMS = 40
FOCUS_SCAN = 256
#: In longer queries a single character of a spaceless script is taken as it stands: what else it
#: begins is most of the index.
PREFIX_UNITS = 2
#: Bounds on what is tried and taken.
PREFIX_SCANNED = 256
PREFIX_TAKEN = 6
PREFIX_LONGEST = 64
TYPO_TAKEN = 5


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to look for.

    Attributes:
        units: the query's words.
        lookups: terms the index holds, for scoring and lane B.
        strict: the FTS5 expression of lane A.
    """

    units: Sequence[Unit]
    lookups: list[Lookup]
    strict: str


def focus(units: Sequence[Unit], postings: Postings) -> list[Unit]:
    """Of a long query the words that say most, in their order: uncommon ones, the rarest first.

    A paste of two hundred words is about a few of them; looking up the rest costs time and adds
    noise. How rare a word is gets decided by a short scan, equal for all words that overrun it.
    """
    if len(units) <= FOCUS_UNITS // 2:
        return list(units)
    common = [share < 1 for share in shares([unit.text for unit in units])]
    rank = [
        (is_common, len(postings.ids(quote([unit.text]), FOCUS_SCAN)) or FOCUS_SCAN, place)
        for place, (unit, is_common) in enumerate(zip(units, common, strict=True))
    ]
    kept: list[int] = []
    terms = 0
    for _, _, place in sorted(rank):
        terms += max(1, len(units[place].parts))
        if kept and (terms > FOCUS_TERMS or len(kept) >= FOCUS_UNITS):
            break
        kept.append(place)
    return [units[place] for place in sorted(kept)]


def plan(units: Sequence[Unit], postings: Postings, vocabulary: Vocabulary) -> Plan:
    """Look up each unit, its parts, and where the index barely knows it, what may stand for it."""
    lookups: list[Lookup] = []
    strict: list[str] = []
    joined = _joined(units, postings)
    common = [share < 1 for share in shares([unit.text for unit in units])]
    for place, unit in enumerate(units):
        frequency = postings.frequency(quote([unit.text]))
        if common[place]:
            # It orders what the other words find; it finds nothing, and is not bent.
            lookups += _typed(place, unit, frequency, postings)
            continue
        found = _typed(place, unit, frequency, postings)
        alternatives = list(joined.get(place, ()))
        alternatives += _inflected(unit.text, vocabulary)
        last = place == len(units) - 1
        if not found and not alternatives:
            alternatives += _split(unit.text, postings, vocabulary)
        if (
            (not found and not alternatives)
            or (not frequency and unit.compound)
            or (last and frequency <= PREFIX_FREQUENCY)
        ):
            alternatives += _forgiven(unit, bool(found or alternatives), vocabulary)
        if unit.single and len(units) <= PREFIX_UNITS:
            alternatives.append(Alternative(prefix(unit.text), 1.0, "prefix"))
        lookups += found
        # A form that is an inflection and a longer word too is taken once, as the former.
        alternatives = list({option.term: option for option in reversed(alternatives)}.values())
        for option in alternatives:
            count = postings.frequency(expression(option.term))
            lookups.append(Lookup(place, option.term, option.weight, count, option.way))
        strict.append(strict_expression(unit, alternatives))
    return Plan(units, lookups, " AND ".join(strict))


def _typed(place: int, unit: Unit, frequency: int, postings: Postings) -> list[Lookup]:
    found = [Lookup(place, unit.text, 1.0, frequency, "exact")] if frequency else []
    if unit.parts == (unit.text,):
        return found
    for part in _telling(unit):
        count = postings.frequency(quote([part]))
        if count:
            found.append(Lookup(place, part, PART_WEIGHT, count, "part"))
    return found


def _telling(unit: Unit) -> list[str]:
    """The parts that say something alone: not a ticket's key, not the `a` of `a339300`."""
    parts = unit.parts[-1:] if unit.ticket else unit.parts
    longer = [part for part in parts if len(part) > 1 or not part.isascii()]
    return list(dict.fromkeys(longer or parts))


def _joined(units: Sequence[Unit], postings: Postings) -> dict[int, list[Alternative]]:
    """`dock hub` may stand for `dockhub`: the joined word answers both units."""
    found: dict[int, list[Alternative]] = {}
    for place, (left, right) in enumerate(itertools.pairwise(units)):
        if not (forgive.bendable(left.text) and forgive.bendable(right.text)):
            continue
        word = left.text + right.text
        if postings.frequency(quote([word])):
            option = Alternative(word, COMPOUND_WEIGHT, "compound")
            found.setdefault(place, []).append(option)
            found.setdefault(place + 1, []).append(option)
    return found


def _forgiven(unit: Unit, found: bool, vocabulary: Vocabulary) -> list[Alternative]:
    """What may stand for a word that the index barely knows."""
    word = unit.text
    options: list[Alternative] = []
    if word.isascii() and len(word) >= forgive.PREFIX_LETTERS:
        options += _unfinished(word, vocabulary)
    if found or not forgive.bendable(word):
        return options
    return options or _misspelt(word, vocabulary)


def _inflected(word: str, vocabulary: Vocabulary) -> list[Alternative]:
    """Other English forms of a word: they count nearly as the word itself."""
    if not forgive.bendable(word) or len(word) < forgive.INFLECT_LETTERS:
        return []
    return [
        Alternative(form, INFLECTION_WEIGHT, "inflection") for form, _ in vocabulary.forms(word)
    ]


def _split(word: str, postings: Postings, vocabulary: Vocabulary) -> list[Alternative]:
    """`dockhub` may stand for `dock hub`, if both are words and stand side by side somewhere."""
    if not forgive.bendable(word):
        return []
    pairs = forgive.splits(word)
    known = {term for term, _ in vocabulary.known({half for pair in pairs for half in pair})}
    return [
        Alternative(" ".join(pair), COMPOUND_WEIGHT, "compound")
        for pair in pairs
        if known.issuperset(pair) and postings.frequency(quote(pair))
    ]


def _unfinished(word: str, vocabulary: Vocabulary) -> list[Alternative]:
    """Known terms that begin with the word, nearest in length and most frequent first."""
    rows = vocabulary.beginning(
        word, shortest=len(word) + 1, longest=PREFIX_LONGEST, most=PREFIX_SCANNED
    )
    rows.sort(key=lambda row: (len(row[0]) - len(word) > 4, -row[1], row[0]))
    return [Alternative(term, PREFIX_WEIGHT, "prefix") for term, _ in rows[:PREFIX_TAKEN]]


def _misspelt(word: str, vocabulary: Vocabulary) -> list[Alternative]:
    """Known terms one edit away; where there is none, two edits away."""
    if len(word) < forgive.EDIT_LETTERS:
        return []
    alike = vocabulary.beginning(
        word[: forgive.HEAD_LETTERS], shortest=len(word) - 2, longest=len(word) + 2
    )
    terms = forgive.near(word, alike, 1)
    if not terms:
        starts = vocabulary.known(forgive.one_edit_at_start(word))
        terms = [term for term, count in sorted(starts, key=lambda row: (-row[1], row[0]))]
    if terms:
        return [Alternative(term, TYPO_WEIGHT, "typo") for term in terms[:TYPO_TAKEN]]
    if len(word) < forgive.TWO_EDIT_LETTERS:
        return []
    terms = forgive.near(word, alike, 2)[:TYPO_TAKEN]
    return [Alternative(term, TWO_EDIT_WEIGHT, "typo") for term in terms]
