"""What a query asks for: units, each with the ways a document may answer it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Literal

from service.ranking.common import is_hangul, part_share

Way = Literal["exact", "part", "prefix", "inflection", "relative", "compound", "typo"]

#: How an FTS5 prefix query ends; no term holds a space or an asterisk.
PREFIX_MARK = " *"
#: Fewest digits of a ticket's number: `utf-8` is a name, `ops-2041` a ticket.
TICKET_DIGITS = 2

_SEPARATORS = str.maketrans("", "", "-_.")


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """One token as the user typed it.

    Attributes:
        text: the token of the `orig` stream.
        parts: its terms of the `sub` stream, in order: sub words, CJK bigrams; often empty.
    """

    text: str
    parts: tuple[str, ...] = ()

    @property
    def spaceless(self) -> bool:
        """Whether it is a run of a script without spaces, whose parts are overlapping n-grams."""
        return bool(self.text) and not self.text[0].isascii() and not self.compound

    @property
    def single(self) -> bool:
        """Whether it is one character of a spaceless script, which may stand inside any run."""
        return len(self.text) == 1 and not self.text.isascii()

    @property
    def ticket(self) -> bool:
        """Whether it is a key and a number, `cr-291543784`: the key alone says nothing."""
        if len(self.parts) != 2 or "-" not in self.text:
            return False
        key, number = self.parts
        return key.isalpha() and number.isdigit() and len(number) >= TICKET_DIGITS

    @property
    def hangul(self) -> bool:
        """Whether it is a Korean word: its parts overlap too, but spaces stand around it."""
        return is_hangul(self.text[0])

    def share_of(self, part: str) -> float:
        """What one of the parts counts beside the others, in (0, 1]."""
        return part_share(part, is_last=len(self.parts) > 1 and part == self.parts[-1])

    @property
    def compound(self) -> bool:
        """Whether the parts, put together, spell the token: `eventoperator`, `acme-gateway`."""
        return len(self.parts) > 1 and "".join(self.parts) == self.text.translate(_SEPARATORS)


@dataclasses.dataclass(frozen=True, slots=True)
class Alternative:
    """A term that may stand for a unit, worth `weight` of what was typed."""

    term: str
    weight: float
    way: Way


def quote(terms: Iterable[str]) -> str:
    """Terms as one FTS5 phrase; nothing in them is syntax."""
    return '"' + " ".join(terms).replace('"', '""') + '"'


def prefix(term: str) -> str:
    """The FTS5 expression of all terms that begin so; it stands for itself among terms."""
    return quote([term]) + PREFIX_MARK


def expression(term: str) -> str:
    """What finds a looked-up term: a word, words that stand together, or a `prefix`."""
    return term if term.endswith(PREFIX_MARK) else quote(term.split(" "))


def strict_expression(unit: Unit, alternatives: Sequence[Alternative] = ()) -> str:
    """The FTS5 expression that a document holding this unit matches."""
    ways = [quote([unit.text])]
    if len(unit.parts) > 1:
        ways.append(quote(unit.parts))
    ways += [expression(alternative.term) for alternative in alternatives]
    return ways[0] if len(ways) == 1 else "(" + " OR ".join(dict.fromkeys(ways)) + ")"


def group(orig: Sequence[str], sub: Sequence[str]) -> list[Unit]:
    """Give each token of `orig` the terms of `sub` that came from it, both streams in order."""
    units: dict[str, Unit] = {}
    at = 0
    for token in orig:
        parts = _parts_at(token, sub, at)
        at += len(parts)
        units.setdefault(token, Unit(token, parts))
    return list(units.values())


def _parts_at(token: str, sub: Sequence[str], at: int) -> tuple[str, ...]:
    """The terms from `sub[at:]` that spell `token`, joined or overlapping by n-grams."""
    if at >= len(sub):
        return ()
    bare = token.translate(_SEPARATORS)
    end, spelt = at, ""
    while end < len(sub) and len(spelt) < len(bare) and bare.startswith(sub[end], len(spelt)):
        spelt += sub[end]
        end += 1
    if spelt == bare and (end - at > 1 or not token.isascii()):
        return tuple(sub[at:end])
    if token.isascii():
        return ()
    end = at
    while end < len(sub) and token.startswith(sub[end], end - at):
        end += 1
        if end - at + len(sub[end - 1]) - 1 == len(token):
            return tuple(sub[at:end])
    return ()
