"""The term sheet: one document's terms in a few hundred bytes, scored without touching FTS5.

FTS5 finds which documents hold a term in about 30 ns a document; its own `bm25()` costs twenty
times that, for every matching row and again for every term. So FTS5 only finds, and the few
hundred candidates that are left are scored from their sheets: little-endian uint32,

    [title length, body length, entry, entry, ...]     entry = hash << 6 | body << 2 | title

with one entry a distinct term, over both token streams. `hash` is the low 26 bits of CRC-32 of
the term's UTF-8 (a false match needs 1 in 67 million per entry and query term, and only among
documents that FTS5 found already); `title` counts occurrences in the title up to 3; `body` is the
bucket of the count in summary, note and meta.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

HASH_BITS = 26
HASH_MASK = (1 << HASH_BITS) - 1
HEADER = 2
TITLE_MOST = 3

#: Bucket 1..15 stands for this many occurrences; counts between two steps take the lower one.
BODY_COUNTS = np.array([0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 24, 32, 64, 128, 256], dtype=np.float32)
_STEPS = BODY_COUNTS.astype(int).tolist()
_BUCKET = [max(b for b in range(16) if _STEPS[b] <= n) for n in range(_STEPS[-1] + 1)]

#: Terms whose hash is remembered; a vocabulary is Zipfian, so this saves most of the CRCs.
_MEMO_TERMS = 1 << 17
_memo: dict[str, int] = {}


def term_hash(term: str) -> int:
    """The 26-bit hash of a term, equal on every machine and release."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass")) & HASH_MASK


def _shifted(term: str) -> int:
    value = _memo.get(term)
    if value is None:
        if len(_memo) >= _MEMO_TERMS:
            _memo.clear()
        value = _memo[term] = term_hash(term) << 6
    return value


def encode(title: Sequence[str], body: Sequence[str]) -> bytes:
    """Build a sheet from the terms of the title and of everything else (both streams)."""
    in_title = Counter(title)
    entries: dict[int, int] = {}
    last = len(_BUCKET) - 1
    for term, count in Counter(body).items():
        entries[_shifted(term)] = _BUCKET[count if count < last else last] << 2
    for term, count in in_title.items():
        key = _shifted(term)
        entries[key] = entries.get(key, 0) | min(count, TITLE_MOST)
    values = [len(title), len(body)]
    values += [key | packed for key, packed in entries.items()]
    return np.array(values, dtype="<u4").tobytes()


def lengths(head: bytes) -> tuple[int, int]:
    """Title and body length, in terms, from a sheet's first 8 bytes."""
    title, body = struct.unpack("<2I", head)
    return title, body


class Sheets:
    """The sheets of a pool of candidates, side by side.

    Attributes:
        title_length, body_length: float32 (n,), terms.
    """

    def __init__(self, blobs: Iterable[bytes]) -> None:
        parts = list(blobs)
        lengths = np.array([len(part) // 4 for part in parts], dtype=np.int64)
        self.count = len(parts)
        self._flat: NDArray[np.uint32] = np.frombuffer(b"".join(parts), dtype="<u4")
        self._ends = np.cumsum(lengths)
        starts = self._ends - lengths
        self.title_length: NDArray[np.float32] = self._flat[starts].astype(np.float32)
        self.body_length: NDArray[np.float32] = self._flat[starts + 1].astype(np.float32)
        self._hashes: NDArray[np.uint32] = self._flat >> np.uint32(6)
        # Header words must never look like entries: no term has this hash after the mask.
        self._hashes[starts] = self._hashes[starts + 1] = np.uint32(0xFFFFFFFF)

    def counts(self, term: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """How often each candidate holds a term: (title, body), float32 (n,) each."""
        title = np.zeros(self.count, dtype=np.float32)
        body = np.zeros(self.count, dtype=np.float32)
        at = np.flatnonzero(self._hashes == np.uint32(term_hash(term)))
        if len(at):
            rows = np.searchsorted(self._ends, at, side="right")
            packed = self._flat[at]
            title[rows] = packed & np.uint32(3)
            body[rows] = BODY_COUNTS[(packed >> np.uint32(2)) & np.uint32(15)]
        return title, body
