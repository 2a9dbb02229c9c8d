"""What of a document is embedded: its text, cut into passages that fit a model's window.

One text a document: title, summary, note. Its first passage, seq 0, is the digest (title, summary
and head), the others cover the rest. Where to cut is said by the model's own tokenizer, which only
the sidecar has; what is cut off at the end is counted.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from service.index.document import Document

#: Grows when a document is cut into other passages, or they are made of other text.
PASSAGE_POLICY: Final = 1
PASSAGE_TOKENS: Final = 128
"""Tokens of a passage. On a CPU one passage of so many takes about 90 ms with a small model, which
is what a query that arrives in the middle waits at most."""
PASSAGES_MOST: Final = 64
"""Passages of one document."""
SOURCE_CHARS: Final = 200_000
"""Longest text that is given to the tokenizer; no language fits more into `PASSAGES_MOST`."""
HASH_BYTES: Final = 12

#: Kinds by how much they say for how little text; what is not named stands between.
_LIGHT: Final = ("note", "memory", "task", "skill")
_HEAVY: Final = ("session", "transcript", "conversation", "chat")
NAMED_KINDS: Final = _LIGHT + _HEAVY
OTHER_RANK: Final = len(_LIGHT)
RANKS: Final = OTHER_RANK + 2


@dataclasses.dataclass(frozen=True, slots=True)
class Passage:
    """One passage of a document.

    Attributes:
        seq: its place, from 0.
        begin, end: where it stands in the document's source text, in code points.
        text: `source[begin:end]`.
    """

    seq: int
    begin: int
    end: int
    text: str

    @property
    def text_hash(self) -> bytes:
        """`HASH_BYTES` that tell passages apart."""
        return text_hash(self.text)


@dataclasses.dataclass(frozen=True, slots=True)
class Passages:
    """A document cut into passages; `dropped_chars` is what is in none of them at its end."""

    passages: tuple[Passage, ...]
    dropped_chars: int


def source(document: Document) -> str:
    """The text of a document that is embedded, with line ends as one character.

    A document without any text is embedded by its meta, or by its ref.
    """
    parts = (document.title, document.summary, document.note)
    text = "\n\n".join(part.strip() for part in parts if part.strip())
    text = text or document.meta.strip() or document.ref
    return text.replace("\r\n", "\n").replace("\r", "\n")


def cut(text: str, spans: Sequence[tuple[int, int]]) -> Passages:
    """A source text in passages.

    Args:
        text: what `source` gives.
        spans: begin and end of each passage in code points, rising, of the first `SOURCE_CHARS`.
    """
    passages = tuple(
        Passage(seq, begin, end, text[begin:end])
        for seq, (begin, end) in enumerate(spans[:PASSAGES_MOST])
    )
    reached = passages[-1].end if passages else 0
    return Passages(passages, len(text[reached:].strip()))


def text_hash(text: str) -> bytes:
    """`HASH_BYTES` that tell the texts of passages apart."""
    return hashlib.blake2b(text.encode(), digest_size=HASH_BYTES).digest()


def rank(kind: str) -> int:
    """When a kind is embedded, in [0, RANKS): light kinds first, transcripts last."""
    if kind in _LIGHT:
        return _LIGHT.index(kind)
    return OTHER_RANK + (kind in _HEAVY)
