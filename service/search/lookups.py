"""From a query's units to the terms that the index knows for them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import apsw

from service.ranking import forgive
from service.ranking.evidence import Lookup
from service.ranking.terms import Alternative, Unit, quote, strict_expression
from service.search.postings import Postings

#: What stands for a typed word counts this share of it.
PART_WEIGHT = 0.6
INFLECTION_WEIGHT = 0.75
PREFIX_WEIGHT = 0.8
COMPOUND_WEIGHT = 0.9
TYPO_WEIGHT = 0.7
TWO_EDIT_WEIGHT = 0.6

#: A last word that fewer documents hold may be unfinished.
PREFIX_FREQUENCY = 3
#: Bounds on what is tried and taken.
PREFIX_SCANNED = 256
PREFIX_TAKEN = 6
TYPO_TAKEN = 5
#: Known terms with the same first letters that are compared for two edits.
TWO_EDIT_SCANNED = 4_000


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to look for.

    Attributes:
        units: the query's words.
        lookups: terms the index holds, for scoring and lane B.
        strict: the FTS5 expression of lane A.
        prefixes: by unit, the FTS5 prefix expression of a single character of a spaceless script.
    """

    units: Sequence[Unit]
    lookups: list[Lookup]
    strict: str
    prefixes: dict[int, str]


def plan(units: Sequence[Unit], postings: Postings, connection: apsw.Connection) -> Plan:
    """Look up each unit, its parts, and where the index barely knows it, what may stand for it."""
    lookups: list[Lookup] = []
    strict: list[str] = []
    prefixes: dict[int, str] = {}
    joined = _joined(units, postings)
    for place, unit in enumerate(units):
        frequency = postings.frequency(quote([unit.text]))
        found = _typed(place, unit, frequency, postings)
        alternatives = list(joined.get(place, ()))
        last = place == len(units) - 1
        if (
            not found
            or (not frequency and unit.compound)
            or (last and frequency <= PREFIX_FREQUENCY)
        ):
            alternatives += _forgiven(unit, bool(found), postings, connection)
        if len(unit.text) == 1 and not unit.text.isascii():
            prefixes[place] = quote([unit.text]) + " *"
            alternatives.append(Alternative(prefixes[place], 1.0, "prefix"))
        lookups += found
        for option in alternatives:
            count = postings.frequency(_expression(option.term, prefixes.get(place)))
            lookups.append(Lookup(place, option.term, option.weight, count, option.way))
        strict.append(
            strict_expression(unit, [o for o in alternatives if o.term != prefixes.get(place)])
        )
    return Plan(units, lookups, " AND ".join(strict), prefixes)


def _expression(term: str, prefix: str | None) -> str:
    return term if term == prefix else quote(term.split(" "))


def _typed(place: int, unit: Unit, frequency: int, postings: Postings) -> list[Lookup]:
    found = [Lookup(place, unit.text, 1.0, frequency, "exact")] if frequency else []
    if unit.parts == (unit.text,):
        return found
    for part in dict.fromkeys(unit.parts[-1:] if unit.ticket else unit.parts):
        count = postings.frequency(quote([part]))
        if count:
            found.append(Lookup(place, part, PART_WEIGHT, count, "part"))
    return found


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


def _forgiven(
    unit: Unit, found: bool, postings: Postings, connection: apsw.Connection
) -> list[Alternative]:
    word = unit.text
    options: list[Alternative] = []
    if word.isascii() and len(word) >= forgive.PREFIX_LETTERS:
        options += _unfinished(word, connection)
    if found or not forgive.bendable(word):
        return options
    for form in forgive.inflections(word):
        if postings.frequency(quote([form])):
            options.append(Alternative(form, INFLECTION_WEIGHT, "inflection"))
    for pair in forgive.splits(word):
        if postings.frequency(quote(pair)):
            options.append(Alternative(" ".join(pair), COMPOUND_WEIGHT, "compound"))
    if not options and len(word) >= forgive.EDIT_LETTERS:
        options += _misspelt(word, connection)
    if not options and len(word) >= forgive.TWO_EDIT_LETTERS:
        options += _badly_misspelt(word, connection)
    return options


def _unfinished(word: str, connection: apsw.Connection) -> list[Alternative]:
    """Known terms that begin with the word, nearest in length and most frequent first."""
    rows: list[Any] = connection.execute(
        "SELECT term, doc FROM temp.vocabulary WHERE term > ? AND term < ? LIMIT ?",
        (word, word[:-1] + chr(ord(word[-1]) + 1), PREFIX_SCANNED),
    ).fetchall()
    rows.sort(key=lambda row: (len(row[0]) - len(word) > 4, -row[1], row[0]))
    return [Alternative(term, PREFIX_WEIGHT, "prefix") for term, _ in rows[:PREFIX_TAKEN]]


def _misspelt(word: str, connection: apsw.Connection) -> list[Alternative]:
    """Known terms one edit away, most frequent first."""
    known = []
    for term in forgive.one_edit(word):
        row: Any = connection.execute(
            "SELECT doc FROM temp.vocabulary WHERE term = ?", (term,)
        ).fetchone()
        if row is not None:
            known.append((-row[0], term))
    return [Alternative(term, TYPO_WEIGHT, "typo") for _, term in sorted(known)[:TYPO_TAKEN]]


def _badly_misspelt(word: str, connection: apsw.Connection) -> list[Alternative]:
    """Known terms two edits away that begin alike, most frequent first."""
    head = word[: forgive.TWO_EDIT_HEAD]
    rows: list[Any] = connection.execute(
        "SELECT term, doc FROM temp.vocabulary WHERE term >= ? AND term < ?"
        " AND length(term) BETWEEN ? AND ? LIMIT ?",
        (head, head[:-1] + chr(ord(head[-1]) + 1), len(word) - 2, len(word) + 2, TWO_EDIT_SCANNED),
    ).fetchall()
    letters = set(word)
    near = [
        (-count, term)
        for term, count in rows
        if len(letters ^ set(term)) <= 4 and forgive.distance(word, term, 2) == 2
    ]
    return [Alternative(term, TWO_EDIT_WEIGHT, "typo") for _, term in sorted(near)[:TYPO_TAKEN]]
