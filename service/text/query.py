"""How a query is read: a small grammar, and everything else is text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_PIECE = re.compile(r'(?<!\S)(-?)"([^"]+)"(?!\S)|(\S+)')
_EXCLUDED = re.compile(r"-[^\W_][^\s]{2,}")
_FILTER = re.compile(r"(kind|after|before):([\w-]+)")
_FLAGS = frozenset({"rm", "ls", "cp", "mv", "tar", "git"})


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query, read.

    Attributes:
        text: what is searched for, phrases included.
        phrases: what must stand as it is.
        excluded: words and phrases that must not be there.
        kinds: kinds asked for.
        updated_after_ms, updated_before_ms: bounds in ms since 1970, UTC.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    updated_after_ms: int | None = None
    updated_before_ms: int | None = None


def parse_query(raw: str) -> ParsedQuery:
    """Read a query; never raises."""
    text: list[str] = []
    phrases: list[str] = []
    excluded: list[str] = []
    kinds: list[str] = []
    after = before = None
    for piece in _PIECE.finditer(raw):
        minus, phrase, word = piece.groups()
        if phrase is not None:
            (excluded if minus else phrases).append(phrase)
            if not minus:
                text.append(phrase)
        elif found := _FILTER.fullmatch(word):
            name, value = found.groups()
            if name == "kind":
                kinds.append(value)
            elif (day := _day(value)) is None:
                text.append(word)
            elif name == "after":
                after = day
            else:
                before = day + 86_400_000 - 1
        elif _EXCLUDED.fullmatch(word):
            excluded.append(word[1:])
        else:
            text.append(word)
    if excluded and not any(any(c.isalnum() for c in t) for t in text) and not kinds:
        return ParsedQuery(raw)
    return ParsedQuery(" ".join(text), tuple(phrases), tuple(excluded), tuple(kinds), after, before)


def _day(value: str) -> int | None:
    try:
        day = datetime.strptime(value, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        return None
    return (day - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
