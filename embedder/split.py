"""Cut a text into passages that fit the model's window.

Cuts fall where a person would pause: at an empty line, else a line's end, else a sentence's, else a
word's; between two characters only where a run without spaces is longer than a passage. Every
token is counted by the model's own tokenizer, on the passage as it will be embedded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from embedder.tokens import TextTokenizer

CHARS_A_TOKEN: Final = 8
"""A block to tokenize at once, in code points a token of the passage: about two passages of
English. Bounds memory: a tokenizer holds about a hundred bytes a token."""
BLOCK_LEAST: Final = 2_048
LATE_SHARE: Final = 0.5
"""A better kind of cut is taken only in the later half of a passage."""
BREAKS: Final = (
    re.compile(r"\r?\n[^\S\n]*\r?\n\s*"),
    re.compile(r"\r?\n\s*"),
    re.compile(r"(?<=[.!?…])\s+|(?<=[。！？।])\s*"),
    re.compile(r"\s+"),
)


@dataclass(frozen=True, slots=True)
class Passage:
    """`text[start:end]`, in code points, and its tokens without prefix and special tokens."""

    start: int
    end: int
    tokens: int


def split(
    text: str, tokenizer: TextTokenizer, *, max_tokens: int, max_passages: int = 0
) -> tuple[list[Passage], int]:
    """Cut a text.

    Args:
        text: any text; an empty or blank one has no passages.
        tokenizer: the model's.
        max_tokens: most tokens of a passage, at least 1. A single character that has more is a
            passage of its own; the model cuts it.
        max_passages: most passages; 0: no cap.

    Returns:
        The passages in order, without surrounding space, and how many tokens the cap dropped.
    """
    kept: list[Passage] = []
    dropped = 0
    for passage in _passages(text, tokenizer, max_tokens):
        if max_passages and len(kept) == max_passages:
            dropped += passage.tokens
        else:
            kept.append(passage)
    return kept, dropped


def _passages(text: str, tokenizer: TextTokenizer, max_tokens: int) -> Iterator[Passage]:
    block = max(BLOCK_LEAST, max_tokens * CHARS_A_TOKEN)
    start, stop = _stripped(text, 0, len(text))
    while start < stop:
        end = min(stop, start + block)
        for passage in _block(text, start, end, tokenizer, max_tokens, last=end == stop):
            yield passage
            start = passage.end
        start, _ = _stripped(text, start, stop)


def _block(
    text: str, start: int, end: int, tokenizer: TextTokenizer, max_tokens: int, *, last: bool
) -> Iterator[Passage]:
    """The whole passages of a block; its last, unfinished one only when nothing comes after."""
    base = start
    offsets = tokenizer.offsets(text[start:end])
    at = 0
    while len(offsets) - at > max_tokens:
        # The first token that does not fit begins here; at least one character is taken.
        most = max(start + 1, base + offsets[at + max_tokens][0])
        cut = _fit(text, start, most, tokenizer, max_tokens)
        yield cut
        start, _ = _stripped(text, cut.end, end)
        while at < len(offsets) and base + offsets[at][0] < start:
            at += 1
    if start < end and (last or start == base):
        # `start == base`: so much space, or so long tokens, that a block is less than a passage.
        yield _fit(text, start, end, tokenizer, max_tokens, whole=True)


def _fit(
    text: str,
    start: int,
    most: int,
    tokenizer: TextTokenizer,
    max_tokens: int,
    *,
    whole: bool = False,
) -> Passage:
    """The passage from `start`, at most to `most`, that fits when tokenized alone."""
    end = most if whole else _pause(text, start, most)
    while True:
        first, stop = _stripped(text, start, end)
        tokens = tokenizer.count(text[first:stop])
        if tokens <= max_tokens or stop - first <= 1:
            return Passage(first, stop, tokens)
        # A cut inside a word can cost a token more: take less, in proportion.
        shorter = first + min(stop - first - 1, (stop - first) * max_tokens // tokens)
        end = _pause(text, first, max(first + 1, shorter))


def _pause(text: str, start: int, most: int) -> int:
    """The best place to cut at or before `most`."""
    if most >= len(text):
        return len(text)
    late = start + int((most - start) * LATE_SHARE)
    for pattern in BREAKS:
        found = [match.end() for match in pattern.finditer(text, late, most)]
        if found and found[-1] > start:
            return found[-1]
    found = [match.end() for match in BREAKS[-1].finditer(text, start, late)]
    return found[-1] if found and found[-1] > start else most


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """The range without the space around it."""
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end
