"""What a manifest is made of, for those who compare their documents with it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def key_of(kind: str, ref: str) -> bytes:
    """A document's key, 8 bytes; its first byte is its bucket."""
    return hashlib.blake2b(f"{kind}\0{ref}".encode(), digest_size=8).digest()


def content_hash(
    *, title: str, summary: str, note: str, meta: str, identifiers: Iterable[str]
) -> bytes:
    """16 bytes over all that is searched; order and repeats of identifiers do not count."""
    digest = hashlib.blake2b(digest_size=16)
    for text in (title, summary, note, meta, *sorted(set(identifiers))):
        raw = text.encode()
        digest.update(len(raw).to_bytes(8, "big"))
        digest.update(raw)
    return digest.digest()
