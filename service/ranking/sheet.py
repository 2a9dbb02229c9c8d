"""The term sheet: one document's terms in a few hundred bytes, scored without touching FTS5.

FTS5 finds which documents hold a term in about 30 ns a document; its own `bm25()` costs twenty
times that, for every matching row and again for every term. So FTS5 only finds, and the few
hundred candidates that are left are scored from their sheets: little-endian uint32,

    [title length, body length, tokens, updated, entry, ...]   entry = hash << 6 | body << 2 | title

with one entry a distinct term, over both token streams, in the order of their hashes. A false
match needs 1 in 67 million per entry and query term, and only among documents that FTS5 found
already. `title` counts occurrences in the title up to 3; `body` is the bucket of the count in
summary, note and meta. `tokens` is the estimate of what a language model would count, `updated`
the document's time in seconds: what a hit or its score needs without reading the document.

A term's hash is a polynomial over its UTF-8 with the bytes as coefficients, modulo 2^64; the odd
base can be divided by, so all terms of a text are hashed at once, wherever they stand in it. Its
high bits, stirred, are the hash: as even as CRC-32 over 270,000 real terms.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

HASH_BITS = 26
HEADER = 4
HEADER_BYTES = 4 * HEADER
TITLE_MOST = 3
_WORD_MOST = (1 << 32) - 1

#: Bucket 1..15 stands for this many occurrences; counts between two steps take the lower one.
BODY_COUNTS = np.array([0, 1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 24, 32, 64, 128, 256], dtype=np.float32)
_STEPS = BODY_COUNTS.astype(int).tolist()
_BODY_BITS = np.array(
    [max(b for b in range(16) if _STEPS[b] <= n) << 2 for n in range(_STEPS[-1] + 1)],
    dtype=np.uint32,
)

_BASE = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio
_STIR = 0xD6E8FEB86659FD93  # odd, its bits mixed: what multiplications of hashes want
_ONES = (1 << 64) - 1
_SEPARATORS = bytes.maketrans(b" ", b"\0")


def _powers(count: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
    """`_BASE**i` and `_BASE**-i` for i below `count`, modulo 2^64."""
    factors = np.array([[_BASE], [pow(_BASE, -1, 1 << 64)]], dtype=np.uint64).repeat(count, axis=1)
    factors[:, 0] = 1
    powers, inverses = np.multiply.accumulate(factors, axis=1)
    return powers, inverses


_POWERS = _powers(1 << 16)  # enough for nearly every document


@lru_cache(4096)
def term_hash(term: str) -> int:
    """The 26-bit hash of a term, equal on every machine and release."""
    value = 0
    for byte in reversed(term.encode("utf-8", "surrogatepass")):
        value = (value * _BASE + byte) & _ONES
    return ((value ^ value >> 32) * _STIR & _ONES) >> (64 - HASH_BITS)


class HashedTerms:
    """The terms of some documents, hashed all at once: most of what numpy costs is by the call.

    Attributes:
        raw: all terms in UTF-8, with a space before each and one at the end.
        starts: int64 (n,), where each begins in `raw`; in a document those of the title come first.
        values: uint64 (n,), a hash of each that tells terms apart for certain enough to skip them.
        bounds: of each document where its terms begin among them, its body's begin, and both end.
    """

    def __init__(self, documents: Iterable[tuple[str, str]]) -> None:
        """From the terms of title and body that stand in two strings, with spaces between them."""
        parts, ends, end = [], [], 0
        for document in documents:
            for terms in document:
                parts.append(f" {terms}".encode("utf-8", "surrogatepass"))
                end += len(parts[-1])
                ends.append(end)
        self.raw = b"".join([*parts, b" "])
        codes = np.frombuffer(self.raw.translate(_SEPARATORS), dtype=np.uint8)
        powers, inverses = _POWERS if len(codes) <= len(_POWERS[0]) else _powers(len(codes))
        inside = codes != 0
        starts: NDArray[np.int64] = (inside[1:] > inside[:-1]).nonzero()[0] + 1
        self.starts = starts
        self.values = np.empty(0, dtype=np.uint64)
        if len(starts):
            values = np.add.reduceat(codes * powers[: len(codes)], starts) * inverses[starts]
            self.values = values ^ (values >> np.uint64(32))
        cuts = [0, *starts.searchsorted(ends).tolist()]
        self.bounds = list(zip(cuts[:-2:2], cuts[1::2], cuts[2::2], strict=True))

    def at(self, places: NDArray[np.intp]) -> list[bytes]:
        """Some of the terms, in UTF-8."""
        raw = self.raw
        return [raw[start : raw.index(b" ", start)] for start in self.starts[places].tolist()]

    def short(self) -> NDArray[np.uint32]:
        """The `term_hash` of each, uint32 (n,)."""
        return ((self.values * np.uint64(_STIR)) >> np.uint64(64 - HASH_BITS)).astype(np.uint32)


def encode(
    title: Iterable[str], body: Iterable[str], *, tokens: int = 0, updated_at: int = 0
) -> bytes:
    """Build a sheet from the terms of the title and of everything else (both streams)."""
    terms = HashedTerms([(" ".join(title), " ".join(body))])
    return pack(terms, tokens=[tokens], updated_at=[updated_at])[0]


def pack(terms: HashedTerms, *, tokens: Iterable[int], updated_at: Iterable[int]) -> list[bytes]:
    """Build sheets.

    Args:
        terms: all of the documents, over both streams.
        tokens: each document's estimated language model tokens.
        updated_at: of each, ms since 1970; kept in seconds, and within 1970 to 2106.
    """
    entries, cuts = _entries(terms)
    sheets, begin = [], 0
    for (start, body, end), cut, count, time in zip(
        terms.bounds, cuts, tokens, updated_at, strict=True
    ):
        lengths = body - start, end - body
        header = struct.pack("<4I", *lengths, min(count, _WORD_MOST), _seconds(time))
        sheets.append(header + entries[4 * begin : 4 * cut])
        begin = cut
    return sheets


def _entries(terms: HashedTerms) -> tuple[bytes, list[int]]:
    """The entries of all documents, one after the other, and where those of each end."""
    count = len(terms.starts)
    if not count:
        return b"", [0] * len(terms.bounds)
    # Document, hash, whether it is of the title: sorted, what is one entry stands together.
    marked = terms.short() << 1
    if len(terms.bounds) > 1:
        marked = marked.astype(np.uint64)
    for number, (start, body, end) in enumerate(terms.bounds):
        marked[start:body] |= 1
        if number:
            marked[start:end] |= number << (HASH_BITS + 1)
    marked.sort()
    hashes = marked >> 1
    is_first = np.ones(count, dtype=np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=is_first[1:])
    (firsts,) = is_first.nonzero()
    in_title = np.add.reduceat(marked & 1, firsts, dtype=np.intp)
    in_body = np.empty(len(firsts), dtype=np.intp)
    np.subtract(firsts[1:], firsts[:-1], out=in_body[:-1])
    in_body[-1] = count - firsts[-1]
    in_body -= in_title
    entries = (
        hashes[firsts].astype("<u4", copy=False) << 6
        | _BODY_BITS.take(in_body, mode="clip")
        | np.minimum(in_title, TITLE_MOST).astype(np.uint32)
    )
    return entries.tobytes(), firsts.searchsorted([end for *_, end in terms.bounds]).tolist()


def lengths(head: bytes) -> tuple[int, int]:
    """Title and body length, in terms, from a sheet's first 8 bytes."""
    title, body = struct.unpack("<2I", head)
    return title, body


def touched(sheet: bytes, updated_at: int) -> bytes:
    """The same sheet with another time, ms since 1970."""
    before = HEADER_BYTES - 4
    return sheet[:before] + struct.pack("<I", _seconds(updated_at)) + sheet[HEADER_BYTES:]


def _seconds(updated_at: int) -> int:
    return min(max(updated_at // 1_000, 0), _WORD_MOST)


class Sheets:
    """The sheets of a pool of candidates, side by side.

    Attributes:
        title_length, body_length: float32 (n,), terms.
        tokens: uint32 (n,), estimated.
        updated_s: int64 (n,), seconds since 1970.
    """

    def __init__(self, blobs: Iterable[bytes]) -> None:
        parts = list(blobs)
        lengths = np.fromiter(map(len, parts), dtype=np.int64, count=len(parts)) // 4
        self.count = len(parts)
        self._flat: NDArray[np.uint32] = np.frombuffer(b"".join(parts), dtype="<u4")
        starts = np.cumsum(lengths) - lengths
        self.title_length: NDArray[np.float32] = self._flat[starts].astype(np.float32)
        self.body_length: NDArray[np.float32] = self._flat[starts + 1].astype(np.float32)
        self.tokens: NDArray[np.uint32] = self._flat[starts + 2]
        self.updated_s: NDArray[np.int64] = self._flat[starts + 3].astype(np.int64)
        # The entries of a sheet stand in the order of their hashes, so all entries of all sheets
        # stand in the order of sheet and hash: one bisection finds any term in any sheet.
        self._sheet = np.arange(len(parts), dtype=np.int64) << (HASH_BITS + 1)
        self._keys: NDArray[np.int64] = self._sheet.repeat(lengths) + (self._flat >> np.uint32(6))
        self._keys += 1
        for place in range(HEADER):
            self._keys[starts + place] = self._sheet  # below all terms of the sheet
        self._held: dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}

    def look_up(self, terms: Iterable[str]) -> None:
        """Find all of these terms in all sheets at once, which costs less than one by one."""
        wanted = [term for term in dict.fromkeys(terms) if term not in self._held]
        if not wanted or not self.count:
            return
        hashes = np.array([term_hash(term) for term in wanted], dtype=np.int64)[:, None]
        targets = self._sheet + hashes + 1
        at = np.minimum(self._keys.searchsorted(targets.ravel()), len(self._keys) - 1)
        entry = np.where(self._keys[at] == targets.ravel(), self._flat[at], 0)
        entry = entry.reshape(targets.shape)
        title = (entry & 3).astype(np.float32)
        body = BODY_COUNTS[(entry >> 2) & 15]
        self._held.update(zip(wanted, zip(title, body, strict=True), strict=True))

    def counts(self, term: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """How often each candidate holds a term: (title, body), float32 (n,) each."""
        if term not in self._held:
            self.look_up([term])
        return self._held[term]
