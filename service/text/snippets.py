"""placeholder"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Snippet:
    """A cut of a text; `marks` are offsets into `text`."""

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    start: int = 0


def snippet(text: str, terms: Collection[str], *, width_chars: int = 160) -> Snippet:
    """Cut around the first match."""
    wanted = [re.escape(term) for term in sorted(terms, key=len, reverse=True) if term]
    flat = " ".join(text[:20_000].split())
    if not wanted:
        return Snippet(flat[:width_chars])
    pattern = re.compile("|".join(wanted), re.IGNORECASE)
    first = pattern.search(flat)
    start = max(0, first.start() - width_chars // 3) if first else 0
    cut = flat[start : start + width_chars]
    return Snippet(cut, tuple(m.span() for m in pattern.finditer(cut)), start)
