"""What an agent fetches before a turn: any text as a query, and no later than it said.

Nobody typed that text as a query, so nothing in it is grammar; and it may be long, so the words
that say most are asked for.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import Final, TypeVar

import apsw

from service.index.reader import IndexReader
from service.text import is_identifier, tokenize

TERMS: Final = 24
"""Most words of a query made from a long text."""
LOOKED_AT_CHARS: Final = 8_000
"""How much of a text's beginning and of its end is looked at."""
EDGE_CHARS: Final = 240
"""The beginning and the end of a text, where what is wanted mostly stands."""
RUN_CHARS: Final = 16
"""Longest run of a script without spaces that is asked for as it stands."""
WORD_CHARS: Final = 64
SHORT_WORD: Final = 4
STEPS: Final = 2_000
"""SQLite's instructions between two looks at the clock, well under a millisecond."""

_QUOTES: Final = re.compile(r'["“”„‟＂]')
_EXCLUDES: Final = re.compile(r"(?<!\S)-+(?=\S)")
_FILTER: Final = re.compile(r"(?<!\S)(kind|after|before):", re.IGNORECASE)

_T = TypeVar("_T")


def as_query(text: str) -> str:
    """A text as a query that asks for its words, of a long one for those that say most.

    Identifiers come first, then words that are repeated, long, or stand near the beginning or the
    end; they are asked for in the order of the text. Pure.
    """
    plain = _FILTER.sub(r"\1 ", _EXCLUDES.sub("", _QUOTES.sub(" ", text)))
    plain = " ".join(plain.split())
    if len(plain) > 2 * LOOKED_AT_CHARS:
        plain = f"{plain[:LOOKED_AT_CHARS]} {plain[-LOOKED_AT_CHARS:]}"
    words = _words(plain)
    if len(words) <= TERMS and len(plain) <= TERMS * RUN_CHARS:
        return plain
    edge = frozenset((*_words(plain[:EDGE_CHARS]), *_words(plain[-EDGE_CHARS:])))
    counts = Counter(words)
    first = {word: place for place, word in reversed(list(enumerate(words)))}

    def worth(word: str) -> tuple[int, int]:
        says = 4 * is_identifier(word) + min(counts[word], 3) + 2 * (word in edge)
        says -= 3 * (len(word) < SHORT_WORD and word.isascii() and word.isalpha())
        return -says, first[word]

    best = sorted(counts, key=worth)[:TERMS]
    return " ".join(sorted(best, key=first.__getitem__))


def _words(text: str) -> list[str]:
    found = tokenize(text).orig
    return [word[: WORD_CHARS if word.isascii() else RUN_CHARS] for word in found]


def until(reader: IndexReader, late: Callable[[], bool], work: Callable[[], _T]) -> _T | None:
    """Do some work on a reader until it is late; what was begun then is cut short.

    Args:
        reader: inside its snapshot, which stays usable.
        late: whether the work is to end; asked in the middle of SQLite's own work.
        work: what is done.

    Returns:
        what the work gave, or None when it was cut short.
    """
    reader.connection.set_progress_handler(late, STEPS)
    try:
        return work()
    except apsw.InterruptError:
        return None
    finally:
        reader.connection.set_progress_handler(None)
