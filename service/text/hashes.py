"""The hashes of a column's terms, in one pass over its bytes.

Cutting a column into strings to hash and count them costs more than finding the tokens did: each
is an object of its own, and the vocabulary of a tenant is larger than any cache of hashes.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mypy_extensions import i64

_SPACE: Final = 32
_ONES: Final = 0xFFFFFFFF
#: The remainder of each byte, by the rule of CRC-32 (ISO 3309): what `zlib.crc32` is made of.
_STEPS: Final = [zlib.crc32(bytes([byte])) ^ zlib.crc32(b"\0") for byte in range(256)]


def term_hash(term: str) -> int:
    """CRC-32 of a term's UTF-8."""
    return zlib.crc32(term.encode("utf-8", "surrogatepass"))


def term_hashes(column: str) -> list[int]:
    """`term_hash` of each term of a column, in order; terms stand between spaces."""
    raw = column.encode("utf-8", "surrogatepass")
    hashes: list[int] = []
    crc: i64 = _ONES
    inside = False
    at: i64 = 0
    size: i64 = len(raw)
    while at < size:
        byte: i64 = raw[at]
        at += 1
        if byte != _SPACE:
            inside = True
            step: i64 = _STEPS[(crc ^ byte) & 0xFF]
            crc = step ^ (crc >> 8)
        elif inside:
            hashes.append(crc ^ _ONES)
            crc = _ONES
            inside = False
    if inside:
        hashes.append(crc ^ _ONES)
    return hashes
