"""What else a word might have been: pure generators of candidate terms, no look-ups.

Every candidate must be found in the vocabulary before it counts, and counts less than what was
typed. Numbers and identifiers are never bent: two tickets one digit apart are two tickets.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator

#: Shortest words that are bent: below this almost every edit is another word.
EDIT_LETTERS = 4
TWO_EDIT_LETTERS = 6
INFLECT_LETTERS = 3
PREFIX_LETTERS = 3
SPLIT_LETTERS = 2
#: First letters that misspelt words are looked for by.
HEAD_LETTERS = 2

#: English endings and what stands in their place in the base form.
_ENDINGS = (
    ("ies", "y"),
    ("ing", ""),
    ("ing", "e"),
    ("ed", ""),
    ("ed", "e"),
    ("es", ""),
    ("s", ""),
    ("er", ""),
    ("er", "e"),
    ("ly", ""),
)
_VOWELS = frozenset("aeiou")

#: Korean particles of one syllable: topic, subject, object, of, at, too, to, and, only.
_PARTICLES = "은는이가을를의에도로와과만"

#: Endings that English makes words of one family with; a stem keeps at least so many letters.
_FAMILY_ENDINGS = """
    s es ed ing ings er ers or ors e y ies ied ly al als ally ic ical ics ous ful ary ory ion ions
    ation ations ative ive ives ity ities ment ments ness able ible ability ibility ism isms ist
    ists ize ized izes izing ization ise ised ising isation ate ated ates ating ant ent ance ances
    ence ences ancy ency
"""
_FAMILY = frozenset(_FAMILY_ENDINGS.split())
_FAMILY_LONGEST = max(map(len, _FAMILY))
STEM_LETTERS = 4


def bendable(term: str) -> bool:
    """Whether a term is a plain word of Latin letters, which may be misspelt or inflected."""
    return term.isascii() and term.isalpha()


def bases(word: str) -> Iterator[str]:
    """What a word may be an English inflection of: `retries` -> `retry`, `running` -> `run`."""
    for ending, instead in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem == word or len(stem) < INFLECT_LETTERS:
            continue
        yield stem + instead
        if not instead and ending in ("ing", "ed", "er") and stem[-1] == stem[-2]:
            yield stem[:-1]


def inflections(word: str) -> list[str]:
    """Other English forms of a word, its possible bases and theirs; without the word itself."""
    forms: dict[str, None] = {}
    for base in (word, *bases(word)):
        forms[base] = None
        forms[base + "s"] = None
        if base.endswith("y") and len(base) > 2 and base[-2] not in _VOWELS:
            forms[base[:-1] + "ies"] = forms[base[:-1] + "ied"] = None
        elif base.endswith("e"):
            forms[base + "d"] = forms[base[:-1] + "ing"] = None
        else:
            forms[base + "ed"] = forms[base + "ing"] = forms[base + "es"] = None
    forms.pop(word, None)
    return list(forms)


def with_particles(word: str) -> list[str]:
    """Other forms of a Korean noun of one syllable, given alone or with one particle.

    Empty for other words. Some of what it is given are verbs (`먹는`), and some of what it gives
    are no words at all.
    """
    noun, particle = word[:1], word[1:]
    if not noun or len(particle) > 1 or particle not in _PARTICLES:
        return []
    return [noun + other for other in ("", *_PARTICLES) if other != particle]


def stems(word: str) -> set[str]:
    """What may be left of a word without its ending: `regulation` -> itself, `regulat`, `regul`.

    Two words with a stem in common are taken for relatives (`regulate`), as Porter's stemmer would
    have them, without that anything is stored under its stem.
    """
    found = {word} if len(word) >= STEM_LETTERS else set()
    for size in range(1, min(_FAMILY_LONGEST, len(word) - STEM_LETTERS) + 1):
        if word[-size:] in _FAMILY:
            stem = word[:-size]
            found.add(stem)
            if stem[-1] == stem[-2] and len(stem) > STEM_LETTERS:
                found.add(stem[:-1])
    return found


def family_head(word: str) -> str:
    """What all relatives of a word begin with; empty for words too short to have any."""
    shortest = min(stems(word), key=len, default="")
    return shortest[:-1] if len(shortest) > STEM_LETTERS and shortest[-1] in "eiy" else shortest


def relatives(word: str, words: Iterable[str]) -> list[str]:
    """Of known words, those of the word's family, the most alike first."""
    own = stems(word)
    found = [other for other in words if other != word and not own.isdisjoint(stems(other))]
    return sorted(found, key=lambda other: (-_shared(word, other), len(other), other))


def _shared(left: str, right: str) -> int:
    """Letters that two words begin with alike."""
    return next(
        (at for at, (one, other) in enumerate(zip(left, right, strict=False)) if one != other),
        min(len(left), len(right)),
    )


def one_edit_at_start(word: str) -> set[str]:
    """Words one letter away, the slip being among the first `HEAD_LETTERS` letters."""
    found: set[str] = set()
    for at in range(HEAD_LETTERS):
        head, tail = word[:at], word[at:]
        found.add(head + tail[1:])
        found.add(head + tail[1:2] + tail[:1] + tail[2:])
        for letter in string.ascii_lowercase:
            found.add(head + letter + tail[1:])
            found.add(head + letter + tail)
    found.discard(word)
    return found


def near(word: str, words: Iterable[str], edits: int) -> list[str]:
    """Of known plain words, those `edits` away, in their order."""
    letters, shortest, longest = set(word), len(word) - edits, len(word) + edits
    return [
        other
        for other in words
        if shortest <= len(other) <= longest
        # One edit changes at most two of the letters that either word has and the other lacks.
        and len(letters.symmetric_difference(other)) <= 2 * edits
        and distance(word, other, edits) == edits
    ]


def splits(word: str) -> list[tuple[str, str]]:
    """The word as two: `dockhub` -> (`dock`, `hub`), and every other cut."""
    return [(word[:at], word[at:]) for at in range(SPLIT_LETTERS, len(word) - SPLIT_LETTERS + 1)]


def distance(left: str, right: str, most: int) -> int:
    """Edits between two words, at most `most + 1`: optimal string alignment (Damerau 1964)."""
    if abs(len(left) - len(right)) > most:
        return most + 1
    before: list[int] = []
    last = list(range(len(right) + 1))
    for at, letter in enumerate(left, 1):
        row = [at]
        for place, other in enumerate(right, 1):
            best = min(last[place] + 1, row[-1] + 1, last[place - 1] + (letter != other))
            if at > 1 and place > 1 and letter == right[place - 2] and left[at - 2] == other:
                best = min(best, before[place - 2] + 1)
            row.append(best)
        if min(row) > most:
            return most + 1
        before, last = last, row
    return last[-1]
