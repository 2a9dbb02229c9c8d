"""What the tokenizer hands out: token streams of a text, and where each token stands in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Stream = Literal["orig", "sub", "edge"]


@dataclass(frozen=True, slots=True)
class Streams:
    """The three ordered token streams of a text.

    Attributes:
        orig: whole tokens, case-folded, with inner `-`, `_`, `.` kept.
        sub: parts of tokens that split, bigrams of CJK (and Thai, Lao, Khmer, Myanmar) runs, and
            runs of a single CJK character. A token that does not split has nothing here.
        edge: further forms that make a text findable and change neither stream: the last
            character of each CJK run, `-rf`, `@acme`, `#17089`, `.gitignore`, `i++`, `1.2.3` of
            `v1.2.3`, `dont` and `don` of `don't`, what stands between the separators of an
            over-long word. In a query an edge token is evidence, never a demand.
    """

    orig: list[str]
    sub: list[str]
    edge: list[str]


@dataclass(frozen=True, slots=True)
class Span:
    """One token and the piece of the raw text that it stands for.

    Attributes:
        start: offset of its first character in the raw text.
        end: offset after its last character.
        token: the token as it is in its stream.
        stream: the stream that it belongs to.
    """

    start: int
    end: int
    token: str
    stream: Stream
