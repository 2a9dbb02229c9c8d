"""What a search asks and what it answers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

Part = tuple[str, float, float]
"""What a search did in between: its name, its begin and end in seconds of `time.perf_counter`."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchRequest:
    """One search.

    Attributes:
        q: what the user typed, grammar included (see `text/query.py`).
        limit: most hits on the page.
        cursor: where the page before ended, from `SearchResult.cursor`.
        kinds, refs: only documents of these; empty for all.
        updated_after_ms, updated_before_ms: only documents updated then, ms since 1970, inclusive.
        explain: whether to say how the query was read and what each lane found.
    """

    q: str
    limit: int = 10
    cursor: str | None = None
    kinds: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    updated_after_ms: int | None = None
    updated_before_ms: int | None = None
    explain: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hit:
    """One document found.

    Attributes:
        score: the weighted sum of `components`, each of which is in [0, 1].
        snippet: the part of the text around the matches; `marks` are offsets into it.
        updated_at: ms since 1970.
        tokens: an estimate of what the full document costs a language model.
    """

    kind: str
    ref: str
    title: str
    score: float
    components: dict[str, float]
    snippet: str
    marks: tuple[tuple[int, int], ...]
    updated_at: int
    tokens: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """A page of hits, best first.

    Attributes:
        cursor: for the next page, None after the last.
        after: the cursor behind so many hits of this page, for who shows fewer; of 0, the page's.
        read_as: how the query was read: terms, phrases, exclusions, filters, dropped terms.
        explain: what each lane found, when asked for.
        took_ms: wall time by phase.
        parts: when it was at what; a phase may come more than once.
    """

    hits: list[Hit]
    cursor: str | None
    read_as: dict[str, Any]
    explain: dict[str, Any] | None
    took_ms: dict[str, float]
    parts: tuple[Part, ...] = ()
    after: Callable[[int], str | None] = dataclasses.field(default=lambda _: None, compare=False)
