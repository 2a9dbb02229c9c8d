"""What a tenant's file holds, told in so few bytes that a sync sends only what differs.

A document's key is blake2b-8 of kind, NUL, ref. Its entry is blake2b-8 of key, `updated_at` (8
bytes, big-endian) and content hash. The documents fall into 256 buckets by their key's first byte,
and a bucket's digest is the XOR of its entries: it depends on what is there alone, not on how it
came.
XOR is no defence against somebody who makes documents collide on purpose; it is their own tenant.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from service.errors import TooLarge
from service.index.reader import IndexReader

BUCKETS: Final = 256
_REMEMBERED: Final = "manifest"


class Row(NamedTuple):
    """One document: 8 bytes of key, ms since 1970, 16 bytes of content hash."""

    key: bytes
    updated_at: int
    content_hash: bytes

    @property
    def entry(self) -> int:
        """Its share of its bucket's digest, 64 bits."""
        raw = self.key + self.updated_at.to_bytes(8, "big") + self.content_hash
        return int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big")


def key_of(kind: str, ref: str) -> bytes:
    """A document's key, 8 bytes."""
    return hashlib.blake2b(f"{kind}\0{ref}".encode(), digest_size=8).digest()


def digests(reader: IndexReader) -> list[int]:
    """The digest of each bucket; 0 for an empty one. Inside the reader's snapshot.

    Remembered for as long as the reader sees the same version.
    """
    found: list[int] | None = reader.remembered.get(_REMEMBERED)
    if found is None:
        found = [0] * BUCKETS
        for row in _rows(reader):
            found[row.key[0]] ^= row.entry
        reader.remembered[_REMEMBERED] = found
    return found


def rows(reader: IndexReader, prefix: str, *, most: int) -> list[Row]:
    """The documents whose key begins so, by key. Inside the reader's snapshot.

    Args:
        reader: of which file.
        prefix: hex digits.
        most: the setting `manifest_rows`.

    Raises:
        TooLarge: there are more.
    """
    found = []
    for row in _rows(reader):
        if row.key.hex().startswith(prefix):
            found.append(row)
            if len(found) > most:
                raise TooLarge(
                    f"the bucket holds more than {most} documents",
                    limit="manifest_rows",
                    hint="Ask for buckets of two digits.",
                )
    return sorted(found)


def _rows(reader: IndexReader) -> Iterator[Row]:
    stored: Any = reader.connection.execute("SELECT kind, ref, updated_at, content_hash FROM doc")
    for kind, ref, updated_at, content_hash in stored:
        yield Row(key_of(kind, ref), updated_at, content_hash)
