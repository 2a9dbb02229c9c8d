"""What a hit costs to look at: rows of about fifty tokens instead of whole documents.

An agent reads a page of rows, then what stood around one of them, then the few documents it wants.
A row has everything needed to choose: what it is, why it was found, and what reading it whole
costs. Its texts are given as much room as the rest of the row leaves; characters of a script that
costs a token each get fewer of them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

from service.search.request import Hit
from service.text.tokens import ERROR_PERCENT, estimate_tokens

ROW_TOKENS: Final = 36
LINE_TOKENS: Final = 44
"""Estimated tokens of a row in JSON and as a line of Markdown, set so that a page of ten with all
that is said about it stays below 600 tokens of real encodings; what one row does not need goes to
the next."""
TITLE_CHARACTERS: Final = 100
SNIPPET_CHARACTERS: Final = 100
TITLE_SHARE: Final = 0.65
"""Of a row's room for texts, what a long title may take."""
LEAST_TOKENS: Final = 7
"""What is always left for a row's texts, however long its ref."""
SNIPPET_TOKENS: Final = 5
"""A snippet shorter than that shows nothing; the title gets its room."""
WORD_SLACK: Final = 12
"""How many characters a cut moves to fall between words."""

COLUMNS: Final = ("kind", "ref", "title", "snippet", "score", "components", "tokens")


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """A hit in about fifty tokens.

    Attributes:
        title, snippet: on one line, cut to fit; `…` where something was cut.
        score: rounded to two digits.
        components: a digit for each name of `names_of`: tenths, 9 for 0.9 and above.
        tokens: what the full text costs, estimated.
    """

    kind: str
    ref: str
    title: str
    snippet: str
    score: float
    components: str
    tokens: int

    def cells(self) -> list[object]:
        """In the order of `COLUMNS`."""
        return [getattr(self, name) for name in COLUMNS]


@dataclasses.dataclass(frozen=True, slots=True)
class Figures:
    """What an answer costs a language model, and what the documents it stands for would.

    Attributes:
        shown: estimated tokens of the answer as sent.
        full: estimated tokens of the documents, whole.
    """

    shown: int
    full: int

    @property
    def saved_percent(self) -> int:
        """What the caller did not have to read; 0 when the answer is the longer one.

        Both counts are estimated in the same way, so that most of their error cancels out.
        """
        return max(0, round(100 * (1 - self.shown / self.full))) if self.full else 0

    def body(self) -> dict[str, int]:
        """The `tokens` object of an answer."""
        return {
            "shown": self.shown,
            "full": self.full,
            "saved_percent": self.saved_percent,
            "error_percent": ERROR_PERCENT,
        }


def names_of(hits: Sequence[Hit]) -> list[str]:
    """The components of the hits, in one order."""
    return list(dict.fromkeys(name for hit in hits for name in hit.components))


def compact(hits: Sequence[Hit], row_tokens: int = ROW_TOKENS) -> list[Row]:
    """The hits as rows of about so many estimated tokens each, in the same order."""
    names = names_of(hits)
    rows, spare = [], 0
    for hit in hits:
        tenths = "".join(_tenth(hit.components.get(name, 0.0)) for name in names)
        bare = f'["{hit.kind}","{hit.ref}","","",{hit.score:.2f},"{tenths}",{hit.tokens}],'
        room = max(LEAST_TOKENS, row_tokens + spare - estimate_tokens(bare))
        title, snippet = _texts(hit, room)
        spare = room - estimate_tokens(f"{title} {snippet}")
        score = round(hit.score, 2)
        rows.append(Row(hit.kind, hit.ref, title, snippet, score, tenths, hit.tokens))
    return rows


def head(text: str, *, tokens: int, characters: int) -> str:
    """The beginning of a text on one line, within both bounds; `…` where it was cut."""
    return window(" ".join(text.split()), 0, tokens=tokens, characters=characters)


def window(text: str, at: int, *, tokens: int, characters: int) -> str:
    """A piece of a line that begins a little before `at`, within both bounds."""
    cost = estimate_tokens(text)
    width = characters if cost <= tokens else min(characters, len(text) * tokens // cost)
    if len(text) <= width:
        return text
    width = max(1, width - 1)
    start = max(0, min(at - width // 4, len(text) - width))
    if start:
        space = text.find(" ", start, start + WORD_SLACK)
        start = space + 1 if space >= 0 else start
    end = min(len(text), start + width)
    if end < len(text):
        space = text.rfind(" ", max(start + 1, end - WORD_SLACK), end)
        end = space if space > start else end
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "")


def _texts(hit: Hit, room: int) -> tuple[str, str]:
    title = " ".join(hit.title.split())
    wanted = 0 if hit.snippet in title else int(room * (1 - TITLE_SHARE))
    if wanted < SNIPPET_TOKENS:
        wanted = 0
    title = window(title, 0, tokens=max(1, room - wanted), characters=TITLE_CHARACTERS)
    left = room - estimate_tokens(title)
    if not wanted or left < SNIPPET_TOKENS:
        return title, ""
    at = hit.marks[0][0] if hit.marks else 0
    return title, window(hit.snippet, at, tokens=left, characters=SNIPPET_CHARACTERS)


def _tenth(value: float) -> str:
    return str(max(0, min(9, int(value * 10 + 1e-9))))
