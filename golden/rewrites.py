"""How people write down the words of a title they half remember. Pure; all chance comes in.

Each function takes text and, where there is a choice, a `random.Random`, and returns the rewritten
text, or None where the text does not allow it.
"""

from __future__ import annotations

import random
import re

SUBSTITUTE_LETTERS = "abcdefghilmnoprstuvwy"
"""Letters a slip may put in; the rare ones would make typos easier to undo than real ones."""
PREFIX_SHARE = 0.6
PREFIX_LETTERS_LEAST = 4
QUESTIONS = (
    "where did we write about {}?",
    "what do we know about {}?",
    "how did we handle {}?",
    "why did we change {}?",
    "what happened with {}?",
    "which one was about {}?",
)
CHATTER = (
    "could you please find me the thing about {} from some time ago",
    "I remember that we talked about {} once, can you look it up for me, thanks",
    "hi, do you still have something on {} somewhere in there?",
    "so there was this one with {} I think, please show it to me",
)
SEPARATORS = ("-", "_", " ", ".")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[-_.]")
_FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


def misspell(word: str, rng: random.Random, *, edits: int) -> str | None:
    """`edits` single-letter slips (delete, insert, substitute) at places apart from each other.

    The first letter stays: people rarely miss it (Pollock and Zamora, CACM 1984).
    """
    places = _places_apart(len(word), rng, edits)
    if places is None:
        return None
    letters = list(word)
    for place in sorted(places, reverse=True):  # from the right, so that places stay true
        slip = rng.choice(("delete", "insert", "substitute"))
        if slip == "delete":
            del letters[place]
        elif slip == "insert":
            letters.insert(place, _other_letter(rng, letters[place], letters[place - 1]))
        else:
            letters[place] = _other_letter(rng, letters[place])
    return "".join(letters)


def _places_apart(length: int, rng: random.Random, count: int) -> list[int] | None:
    places: list[int] = []
    candidates = list(range(1, length))
    rng.shuffle(candidates)
    for place in candidates:
        if all(abs(place - other) > 1 for other in places):
            places.append(place)
            if len(places) == count:
                return places
    return None


def _other_letter(rng: random.Random, *not_these: str) -> str:
    return rng.choice([c for c in SUBSTITUTE_LETTERS if c not in "".join(not_these).lower()])


def transpose(word: str, rng: random.Random) -> str | None:
    """Two neighbouring, different letters change places; the first letter stays."""
    places = [i for i in range(1, len(word) - 1) if word[i].lower() != word[i + 1].lower()]
    if not places:
        return None
    i = rng.choice(places)
    return word[:i] + word[i + 1] + word[i] + word[i + 2 :]


def prefix(word: str) -> str | None:
    """The head of a word: three fifths, at least four letters, always shorter than the word."""
    keep = max(PREFIX_LETTERS_LEAST, round(len(word) * PREFIX_SHARE))
    return word[:keep] if keep < len(word) else None


def unfinished(word: str, rng: random.Random) -> str | None:
    """A word whose last one to three letters are not typed yet; four letters or more remain."""
    keep = max(PREFIX_LETTERS_LEAST, len(word) - rng.randint(1, 3))
    return word[:keep] if keep < len(word) else None


def inflect(word: str, rng: random.Random) -> str | None:
    """An English word in another form: an ending taken off when it has one, else one put on."""
    low = word.lower()
    for ending, instead in (("ies", "y"), ("ing", ""), ("ed", ""), ("s", "")):
        if low.endswith(ending) and len(word) - len(ending) >= PREFIX_LETTERS_LEAST:
            return None if low.endswith("ss") else word[: -len(ending)] + instead
    if low.endswith("ly"):  # an adverb has no other form
        return None
    if low.endswith("y"):
        return word[:-1] + "ies"
    if low.endswith("e"):
        return word[:-1] + rng.choice(("es", "ed", "ing"))
    return word + rng.choice(("s", "ed", "ing"))


def humps(word: str) -> list[str]:
    """The parts of a camelCase, snake_case, kebab-case or dotted word, as written."""
    return [part for part in _CAMEL.split(word) if part]


def full_width(text: str) -> str:
    """Printable ASCII in its full-width forms, as a CJK input method leaves it; spaces stay."""
    return text.translate(_FULL_WIDTH)


def other_case(text: str) -> str:
    """All capitals, or all small letters where it was all capitals already."""
    return text.upper() if text != text.upper() else text.lower()


def other_separators(version: str, rng: random.Random) -> str:
    """A version with its dots written another way, or with a `v` put before or taken away."""
    bare = version.removeprefix("v")
    separator = rng.choice(SEPARATORS)
    if separator == ".":
        return bare if version.startswith("v") else f"v{bare}"
    return bare.replace(".", separator)


def reorder(words: list[str], rng: random.Random) -> list[str] | None:
    """The words in another order; None when there is no other."""
    if len(set(words)) < 2:
        return None
    shuffled = list(words)
    while shuffled == words:
        rng.shuffle(shuffled)
    return shuffled


def question(words: str, rng: random.Random) -> str:
    """The words inside a question."""
    return rng.choice(QUESTIONS).format(words)


def chatty(words: str, rng: random.Random) -> str:
    """The words inside small talk, three times as long as they are."""
    return rng.choice(CHATTER).format(words)


def is_plain(word: str) -> bool:
    """Whether a word is ASCII letters in one hump: what typos and inflections happen to."""
    return word.isascii() and word.isalpha() and (word.islower() or word[1:].islower())
