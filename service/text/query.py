"""How a query is read: a small grammar, and everything else is text.

| typed | means |
| --- | --- |
| `"two words"` | must stand there in this order; `“ ”` and full-width `＂` do as well |
| `-word` `-"two words"` | must not be there |
| `kind:note` | only documents of this kind; again, or `kind:note,task`, for one of several |
| `after:2026-01-01` | updated on that day (UTC) or later |
| `before:2026-01-31` | updated earlier than that day (UTC) |

There is no error: what does not fit the grammar is searched for as it stands. Where a reading could
surprise, text wins:

- A quote opens where a word could begin and must close again: `5" disk` and `"unclosed` are text.
- `-` excludes only at the start of a word and only words of three letters and more, numbers of
  four digits and more, or anything in a script without spaces: `-rf`, `-v`, `--force`, `-1`, a lone
  `-` and `gen-itgc` are text.
- A filter needs a value: `kind:` alone, `title:x` and `after:soon` are text, as are days that no
  calendar has.
- If nothing is left to search for beside exclusions, they are text.
"""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from typing import Final

from service.text.folding import CASELESS, DIGIT, LOWER, SPACELESS, UPPER, kinds_of, normalise
from service.text.tokenizer import tokenize

KIND_CHARS: Final = 64
"""Longest value of `kind:` that is read as a filter, as in `Settings.kind_bytes`."""

LETTERS: Final = 3
"""Fewest letters of a word that `-` excludes."""

_QUOTES: Final = '"“”„‟＂'
_PIECE: Final = re.compile(
    rf"(?P<minus>-?)[{_QUOTES}](?P<phrase>[^{_QUOTES}]*)[{_QUOTES}]"
    rf"|(?P<filter>(?i:kind|after|before)):(?P<value>[^\s{_QUOTES}]+)"
    rf"|-(?P<excluded>[^\s{_QUOTES}-][^\s{_QUOTES}]*)"
)
_TEXT: Final = re.compile(rf"[{_QUOTES}]|[^\s{_QUOTES}]+")
_SPACE: Final = re.compile(r"\s*")
_KINDS: Final = re.compile(rf"[\w.-]{{1,{KIND_CHARS}}}(?:,[\w.-]{{1,{KIND_CHARS}}})*")
_DATE: Final = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query as it was read.

    Attributes:
        text: what to search for, in the order typed; phrases are part of it, without quotes.
        phrases: what must stand in a document word by word; each has at least one token.
        excluded: words and phrases that no hit may hold; each has at least one token.
        kinds: kinds asked for, as typed, without repeats.
        updated_after_ms: earliest `updated_at` of a hit, ms since 1970 UTC, inclusive.
        updated_before_ms: latest `updated_at` of a hit, ms since 1970 UTC, inclusive.
    """

    text: str
    phrases: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    updated_after_ms: int | None = None
    updated_before_ms: int | None = None


def parse_query(raw: str) -> ParsedQuery:
    """Read a query by the grammar above. Total: any text is a query."""
    words: list[tuple[str, str, str]] = []  # (role, what it says, as typed)
    at = _skip_space(raw, 0)
    while at < len(raw):
        piece = _PIECE.match(raw, at)
        role = _role(raw, piece) if piece else ""
        if piece is None or not role:
            piece = _TEXT.match(raw, at)
            assert piece is not None, "anything but white space is a word or a quote"
            role = "text"
        typed = piece.group()
        if role != "text":
            says = piece["phrase"] or piece["excluded"] or piece["value"]
            words.append((role, says.strip(), typed))
        elif words and words[-1][0] == "text" and not raw[at - 1].isspace():
            typed = words.pop()[2] + typed  # what was typed together stays together
            words.append((role, typed, typed))
        else:
            words.append((role, typed, typed))
        at = _skip_space(raw, piece.end())
    return _assemble(words)


def _skip_space(raw: str, at: int) -> int:
    found = _SPACE.match(raw, at)
    assert found is not None, "matches the empty string too"
    return found.end()


def _role(raw: str, piece: re.Match[str]) -> str:
    """What a piece that has the form of the grammar is; "" for text after all."""
    start = piece.start()
    first = start == 0 or raw[start - 1].isspace()
    if (phrase := piece["phrase"]) is not None:
        if not (first or (not piece["minus"] and _may_open(raw[start - 1]))):
            return ""
        if not tokenize(phrase).orig:
            return ""
        return "excluded" if piece["minus"] else "phrase"
    if not first:
        return ""
    if (name := piece["filter"]) is not None:
        name, value = name.lower(), piece["value"]
        if name == "kind":
            return name if _KINDS.fullmatch(value) else ""
        return name if _day_ms(value) is not None else ""
    return "excluded" if _excludes(piece["excluded"]) else ""


def _may_open(before: str) -> bool:
    """Whether a quote after this character opens a phrase rather than belonging to a word."""
    return all(kind == 0 or kind >= SPACELESS for kind in kinds_of(normalise(before)))


def _excludes(word: str) -> bool:
    """Whether `-word` means an exclusion and not an option of a command or a number."""
    kinds = kinds_of(normalise(word))
    letters = sum(kind in (LOWER, CASELESS, UPPER) for kind in kinds)
    digits = kinds.count(DIGIT)
    return SPACELESS in kinds or letters >= LETTERS or (not letters and digits > LETTERS)


def _day_ms(value: str) -> int | None:
    """The first ms of a day, UTC; None where there is no such day."""
    found = _DATE.fullmatch(value)
    if found is None:
        return None
    year, month, day = map(int, found.groups())
    if not (year and 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]):
        return None
    return calendar.timegm((year, month, day, 0, 0, 0)) * 1000


def _assemble(words: list[tuple[str, str, str]]) -> ParsedQuery:
    positive = [says for role, says, _ in words if role in ("text", "phrase")]
    searchable = bool(tokenize(" ".join(positive)).orig)
    if not searchable:  # nothing to search for beside what must not be there
        positive = [typed for role, _, typed in words if role in ("text", "phrase", "excluded")]
    kinds = [kind for role, says, _ in words if role == "kind" for kind in says.split(",")]
    days = [(role, _day_ms(says) or 0) for role, says, _ in words if role in ("after", "before")]
    excluded = [says for role, says, _ in words if role == "excluded" and searchable]
    return ParsedQuery(
        text=" ".join(positive),
        phrases=tuple(dict.fromkeys(says for role, says, _ in words if role == "phrase")),
        excluded=tuple(dict.fromkeys(excluded)),
        kinds=tuple(dict.fromkeys(kinds)),
        updated_after_ms=max((ms for role, ms in days if role == "after"), default=None),
        updated_before_ms=min((ms - 1 for role, ms in days if role == "before"), default=None),
    )
