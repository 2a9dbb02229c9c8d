"""Which documents of a corpus hold which words: what makes a half-remembered need findable at all.

A robustness probe is fair only when the words before the rewrite point at few documents; this is
the plain counting behind that choice, deliberately apart from the engine's own tokenizer.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import orjson

CJK = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
CJK_RUN = re.compile(f"[{CJK}]+")
_WORD = re.compile(rf"[{CJK}]+|[^\W_{CJK}]+(?:[-_.][^\W_{CJK}]+)*")
_PART = re.compile(r"[-_.]")


@dataclass(frozen=True, slots=True)
class Document:
    """What probes are made of. `body` is summary, note and meta, a line each."""

    kind: str
    ref: str
    title: str
    body: str
    identifiers: tuple[str, ...]


def document(line: bytes) -> Document:
    """One corpus line. Missing fields are empty."""
    row = orjson.loads(line)
    body = "\n".join(row.get(field) or "" for field in ("summary", "note", "meta"))
    identifiers = tuple(row.get("identifiers") or ())
    return Document(row["kind"], row["ref"], row.get("title") or "", body, identifiers)


def words(text: str) -> list[str]:
    """CJK runs and other words with their inner `- _ .`, in order, as written."""
    return _WORD.findall(text)


def replaced(text: str, replace: Callable[[str], str]) -> str:
    """The text with each of its `words` put through `replace`, everything between them kept."""
    return _WORD.sub(lambda match: replace(match.group()), text)


class Lexicon:
    """Word postings of a corpus, case-insensitive; compounds count whole and by their parts."""

    def __init__(self, documents: Sequence[Document]) -> None:
        self.titles = Counter(d.title.casefold() for d in documents)
        self._texts = [f"{d.title}\n{d.body}".casefold() for d in documents]
        self._postings: dict[str, list[int]] = {}
        for number, (text, d) in enumerate(zip(self._texts, documents, strict=True)):
            for word in _keys(_WORD.findall(text), d.identifiers):
                self._postings.setdefault(word, []).append(number)
        self._vocabulary = sorted(self._postings)

    def frequency(self, word: str) -> int:
        """Documents that hold the word."""
        return len(self._postings.get(word.casefold(), ()))

    def holders(self, wanted: Iterable[str]) -> int:
        """Documents that hold all the words."""
        postings = [self._postings.get(word.casefold(), []) for word in wanted]
        postings.sort(key=len)
        found = set(postings[0]) if postings else set()
        for other in postings[1:]:
            found.intersection_update(other)
        return len(found)

    def prefix_holders(self, prefix: str) -> int:
        """Documents that hold any word which starts so."""
        prefix = prefix.casefold()
        found: set[int] = set()
        for i in range(bisect.bisect_left(self._vocabulary, prefix), len(self._vocabulary)):
            if not self._vocabulary[i].startswith(prefix):
                break
            found.update(self._postings[self._vocabulary[i]])
        return len(found)

    def text_holders(self, pieces: Sequence[str], *, most: int) -> int:
        """Documents whose text holds all the pieces anywhere; counting stops above `most`."""
        count = 0
        pieces = [piece.casefold() for piece in pieces]
        for text in self._texts:
            if all(piece in text for piece in pieces):
                count += 1
                if count > most:
                    break
        return count


def _keys(found: list[str], identifiers: tuple[str, ...]) -> set[str]:
    keys = set(found)
    for word in found:
        if not word.isalnum():
            keys.update(_PART.split(word))
    keys.update(identifier.casefold() for identifier in identifiers)
    return keys
