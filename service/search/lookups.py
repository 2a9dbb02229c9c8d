"""From a query's units to the terms that the index knows for them."""

from __future__ import annotations

import dataclasses
import itertools
import unicodedata
from collections.abc import Collection, Sequence

from service.ranking import forgive
from service.ranking.common import shares
from service.ranking.evidence import Lookup
from service.ranking.terms import Alternative, Unit, prefix, quote, strict_expression
from service.search.postings import Postings
from service.search.vocabulary import Vocabulary

#: What stands for a typed word counts this share of it.
PART_WEIGHT = 0.5
HANGUL_PART_WEIGHT = 0.75
INFLECTION_WEIGHT = 0.6
SENTENCE_INFLECTION_WEIGHT = 0.45
RELATIVE_WEIGHT = 0.35
PARTICLE_WEIGHT = 0.4
PREFIX_WEIGHT = 0.8
COMPOUND_WEIGHT = 0.9
TYPO_WEIGHT = 0.7
TWO_EDIT_WEIGHT = 0.6

#: A last word that fewer documents hold may be unfinished.
PREFIX_FREQUENCY = 3
#: Words of a query, and terms they are cut into, that are looked up in full; and how far a word is
#: scanned to choose them.
FOCUS_UNITS = 16
FOCUS_TERMS = 24
FOCUS_SCAN = 128
#: How many words of a query are scanned to choose them: the longest, which tend to be rare.
FOCUS_TRIED = 40
#: In longer queries a single character of a spaceless script is taken as it stands: what else it
#: begins is most of the index.
PREFIX_UNITS = 2
#: A query of so many words is a sentence, whose words have relatives; a shorter one names things.
SENTENCE_UNITS = 6
RELATIVES_TAKEN = 4
#: Bounds on what is tried and taken.
PREFIX_SCANNED = 256
#: Letters from which on few terms begin so, and those of any kind are looked through.
PREFIX_TELLING = 5
PREFIX_TAKEN = 6
PREFIX_LONGEST = 64
TYPO_TAKEN = 5
#: Of more words, which to take is decided among so many, by scans of so many documents.
RANKED = 24
RANKED_SCAN = 256


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What to look for.

    Attributes:
        units: the query's words.
        lookups: terms the index holds, for scoring and lane B.
        asked: the FTS5 expression of each unit that lane A asks for, by its place; common words
            are not among them.
    """

    units: Sequence[Unit]
    lookups: list[Lookup]
    asked: dict[int, str]


def focus(units: Sequence[Unit], postings: Postings) -> list[Unit]:
    """Of a long query the words that say most, in their order: uncommon ones, the rarest first.

    A paste of two hundred words is about a few of them; looking up the rest costs time and adds
    noise. How rare a word is gets decided by a short scan, equal for all words that overrun it.
    """
    if len(units) <= FOCUS_UNITS // 2:
        return list(units)
    common = [share < 1 for share in shares([unit.text for unit in units])]
    longest_first = sorted(
        range(len(units)), key=lambda place: (common[place], -len(units[place].text), place)
    )
    rank = [
        (
            common[place],
            len(postings.ids(quote([units[place].text]), FOCUS_SCAN)) or FOCUS_SCAN,
            place,
        )
        for place in longest_first[:FOCUS_TRIED]
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
    asked: dict[int, str] = {}
    joined = _joined(units, vocabulary)
    common = [share < 1 for share in shares([unit.text for unit in units])]
    for place, unit in enumerate(units):
        frequency = postings.frequency(unit.text)
        if common[place]:
            # It orders what the other words find; it finds nothing, and is not bent.
            lookups += _typed(place, unit, frequency, postings)
            continue
        found = _typed(place, unit, frequency, postings)
        alternatives = list(joined.get(place, ()))
        alternatives += _forms(unit.text, vocabulary, sentence=len(units) >= SENTENCE_UNITS)
        if unit.hangul:
            alternatives += _with_particles(unit.text, postings)
        last = place == len(units) - 1
        if not found and not alternatives:
            alternatives += _split(unit.text, postings, vocabulary)
        if (
            (not found and not alternatives)
            or (not frequency and unit.compound)
            or (last and frequency <= PREFIX_FREQUENCY)
        ):
            alternatives += _forgiven(unit, bool(found or alternatives), postings, vocabulary)
        if unit.single and len(units) <= PREFIX_UNITS:
            alternatives.append(Alternative(prefix(unit.text), 1.0, "prefix"))
        lookups += found
        # A form that is an inflection and a longer word too is taken once, as the former.
        alternatives = list({option.term: option for option in reversed(alternatives)}.values())
        for option in alternatives:
            count = postings.frequency(option.term)
            lookups.append(Lookup(place, option.term, option.weight, count, option.way))
        asked[place] = strict_expression(unit, alternatives)
    return Plan(units, lookups, asked)


def _typed(place: int, unit: Unit, frequency: int, postings: Postings) -> list[Lookup]:
    found = [Lookup(place, unit.text, 1.0, frequency, "exact")] if frequency else []
    if unit.parts == (unit.text,):
        return found
    weight = HANGUL_PART_WEIGHT if unit.hangul else PART_WEIGHT
    known: set[str] = set()
    for part in _telling(unit):
        count = postings.frequency(part)
        if count:
            known.update(part)
            found.append(Lookup(place, part, weight * unit.share_of(part), count, "part"))
    if unit.spaceless:
        for letter in _left_over(unit.text, known):
            count = postings.frequency(letter)
            if count:
                found.append(Lookup(place, letter, weight, count, "part"))
    return found


def _left_over(run: str, known: Collection[str]) -> list[str]:
    """Ideographs of a run that are in no known pair: `䲟又` is nowhere, `䲟` may be a title."""
    return [
        letter
        for letter in dict.fromkeys(run)
        if letter not in known and unicodedata.name(letter, "").startswith("CJK UNIFIED")
    ]


def _telling(unit: Unit) -> list[str]:
    """The parts that say something alone: not a ticket's key, not the `a` of `a339300`."""
    parts = unit.parts[-1:] if unit.ticket else unit.parts
    longer = [part for part in parts if len(part) > 1 or not part.isascii()]
    return list(dict.fromkeys(longer or parts))


def _joined(units: Sequence[Unit], vocabulary: Vocabulary) -> dict[int, list[Alternative]]:
    """`dock hub` may stand for `dockhub`: the joined word answers both units."""
    pairs = {
        left.text + right.text: place
        for place, (left, right) in enumerate(itertools.pairwise(units))
        if forgive.bendable(left.text) and forgive.bendable(right.text)
    }
    found: dict[int, list[Alternative]] = {}
    for word in sorted(vocabulary.known(pairs)) if pairs else ():
        option = Alternative(word, COMPOUND_WEIGHT, "compound")
        found.setdefault(pairs[word], []).append(option)
        found.setdefault(pairs[word] + 1, []).append(option)
    return found


def _forgiven(
    unit: Unit, found: bool, postings: Postings, vocabulary: Vocabulary
) -> list[Alternative]:
    """What may stand for a word that the index barely knows."""
    word = unit.text
    options: list[Alternative] = []
    if word.isascii() and len(word) >= forgive.PREFIX_LETTERS:
        options += _unfinished(word, postings, vocabulary)
    if found or not forgive.bendable(word):
        return options
    return options or _misspelt(word, postings, vocabulary)


def _forms(word: str, vocabulary: Vocabulary, *, sentence: bool) -> list[Alternative]:
    """Other English forms of a word; in a sentence also the words of its family.

    A question is seldom put in the words of its answer; but as it has several words that may be
    found as typed, what stands for one of them counts less there.
    """
    if not forgive.bendable(word) or len(word) < forgive.INFLECT_LETTERS:
        return []
    weight = SENTENCE_INFLECTION_WEIGHT if sentence else INFLECTION_WEIGHT
    forms = [Alternative(form, weight, "inflection") for form in vocabulary.forms(word)]
    if sentence:
        forms += [
            Alternative(relative, RELATIVE_WEIGHT, "relative")
            for relative in vocabulary.relatives(word, RELATIVES_TAKEN)
        ]
    return forms


def _with_particles(word: str, postings: Postings) -> list[Alternative]:
    """A Korean noun of one syllable with other particles, or none: `개가` may stand for `개를`.

    The pairs of a longer word tell its noun; such a word is one pair.
    """
    return [
        Alternative(form, PARTICLE_WEIGHT, "inflection")
        for form in forgive.with_particles(word)
        if postings.frequency(form)
    ]


def _split(word: str, postings: Postings, vocabulary: Vocabulary) -> list[Alternative]:
    """`dockhub` may stand for `dock hub`, if both are words and stand side by side somewhere."""
    if not forgive.bendable(word):
        return []
    pairs = forgive.splits(word)
    known = set(vocabulary.known({half for pair in pairs for half in pair}))
    return [
        Alternative(" ".join(pair), COMPOUND_WEIGHT, "compound")
        for pair in pairs
        if known.issuperset(pair) and postings.frequency(" ".join(pair))
    ]


def _unfinished(word: str, postings: Postings, vocabulary: Vocabulary) -> list[Alternative]:
    """Known terms that begin with the word, nearest in length and most frequent first."""
    if forgive.bendable(word) and len(word) < PREFIX_TELLING:
        terms = vocabulary.beginning(word, shortest=len(word) + 1, longest=PREFIX_LONGEST)
    else:
        terms = vocabulary.terms_beginning(word, longest=PREFIX_LONGEST, most=PREFIX_SCANNED)
    terms.sort(key=lambda term: (len(term), term))
    taken = sorted(
        _frequent_first(terms[:RANKED], postings), key=lambda term: len(term) - len(word) > 4
    )
    return [Alternative(term, PREFIX_WEIGHT, "prefix") for term in taken[:PREFIX_TAKEN]]


def _misspelt(word: str, postings: Postings, vocabulary: Vocabulary) -> list[Alternative]:
    """Known words one edit away; where there is none, two edits away."""
    if len(word) < forgive.EDIT_LETTERS:
        return []
    alike = vocabulary.beginning(
        word[: forgive.HEAD_LETTERS], shortest=len(word) - 2, longest=len(word) + 2
    )
    words = forgive.near(word, alike, 1) or vocabulary.known(forgive.one_edit_at_start(word))
    weight = TYPO_WEIGHT
    if not words and len(word) >= forgive.TWO_EDIT_LETTERS:
        words, weight = forgive.near(word, alike, 2), TWO_EDIT_WEIGHT
    words = _frequent_first(sorted(words)[:RANKED], postings)
    return [Alternative(term, weight, "typo") for term in words[:TYPO_TAKEN]]


def _frequent_first(terms: list[str], postings: Postings) -> list[str]:
    """By falling frequency, as far as a short scan tells; those that nothing holds are left out."""
    counted = [(len(postings.ids(quote([term]), RANKED_SCAN)), term) for term in terms]
    counted.sort(key=lambda item: (-item[0], item[1]))
    return [term for count, term in counted if count]
