"""Where each token stands in the raw text: what snippets mark.

This is also the plain statement of what the tokenizer does, without its short cuts: cut at ASCII
separators, cut at wide separators, normalise, scan. A test holds the two equal.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

from service.text.folding import (
    TOKEN_PUNCTUATION,
    WIDE_PIECE,
    fold_case,
    kinds_of,
    normalise_with_origins,
)
from service.text.scan import BIGRAMS, EDGE, ORIG, scan
from service.text.streams import Span, Stream

MEMO_PIECES: Final = 16_384
"""Pieces whose spans are remembered, the least recently seen forgotten first: about 10 MB."""

MEMO_CHARS: Final = 32
"""Longest piece that is remembered."""

_CHUNK: Final = re.compile(f"(?:[^\\W_]|[^\\x00-\\x7f]|[{re.escape(TOKEN_PUNCTUATION)}])+")
_STREAMS: Final[dict[int, Stream]] = {ORIG: "orig", EDGE: "edge"}


def spans(text: str) -> Iterator[Span]:
    """Each token of a text with the piece of the raw text that it stands for.

    Spans come by growing `start` and may overlap: a token, its parts, the bigrams of a run. The
    tokens of each stream, in this order, are those of `tokenize`. A span never divides what one
    character stands for: both tokens of `½` have the same span.
    """
    for offset, piece in pieces(text):
        for span in piece:
            yield Span(offset + span.start, offset + span.end, span.token, span.stream)


def pieces(text: str) -> Iterator[tuple[int, tuple[Span, ...]]]:
    """The pieces of a text that are cut by themselves: offset, and spans that count from there."""
    for chunk in _CHUNK.finditer(text):
        for piece in WIDE_PIECE.finditer(text, chunk.start(), chunk.end()):
            raw = piece.group()
            yield piece.start(), (_known if len(raw) <= MEMO_CHARS else _piece_spans)(raw)


def _piece_spans(piece: str) -> tuple[Span, ...]:
    text, origins = normalise_with_origins(piece)
    cuts = scan(text.encode("ascii", "replace"), kinds_of(text))
    found: list[tuple[int, int, Stream]] = []
    for at in range(0, len(cuts), 3):
        what, start, end = cuts[at], cuts[at + 1], cuts[at + 2]
        if what == BIGRAMS:
            found += [(pair, pair + 2, "sub") for pair in range(start, end - 1)]
        else:
            found.append((start, end, _STREAMS.get(what, "sub")))
    found.sort(key=lambda cut: cut[0])
    cut_out = []
    for start, end, stream in found:
        token = fold_case(text[start:end])
        if stream == "edge":
            token = token.replace("'", "")
        cut_out.append(Span(origins[start], _end(origins, end), token, stream))
    return tuple(cut_out)


#: Vocabulary repeats: most pieces of a snippet were cut before.
_known = functools.lru_cache(MEMO_PIECES)(_piece_spans)


def _end(origins: list[int], end: int) -> int:
    """Where the group of characters that ends before `end` ends in the raw text."""
    last = origins[end - 1]
    while origins[end] == last:  # the last number is greater than all others
        end += 1
    return origins[end]
