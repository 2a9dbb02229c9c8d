"""From ranked rows to the hits of a page."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any

import apsw

from service.search.request import Hit
from service.text import snippet

#: Deepest hit that a cursor reaches; further down nobody reads, and each tier costs as the first.
DEPTH = 1_000
SNIPPET_CHARACTERS = 160


@dataclasses.dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate in its place: tier, row id, score, estimated tokens, components in [0, 1]."""

    tier: int
    row: int
    score: float
    tokens: int
    components: dict[str, float]


def hits(
    connection: apsw.Connection, ranked: Sequence[Ranked], terms: Collection[str]
) -> list[Hit]:
    """Fetch the documents of a page and cut their snippets."""
    return [_hit(connection, item, terms) for item in ranked]


def _hit(connection: apsw.Connection, item: Ranked, terms: Collection[str]) -> Hit:
    row: Any = connection.execute(
        "SELECT kind, ref, title, updated_at, summary, note FROM doc WHERE id = ?", (item.row,)
    ).fetchone()
    kind, ref, title, updated_at, summary, note = row
    cut = snippet(note or summary, terms, width_chars=SNIPPET_CHARACTERS)
    if not cut.marks and summary and note:
        of_summary = snippet(summary, terms, width_chars=SNIPPET_CHARACTERS)
        cut = of_summary if of_summary.marks else cut
    return Hit(
        kind=kind,
        ref=ref,
        title=title,
        score=round(item.score, 6),
        components={name: round(value, 4) for name, value in item.components.items()},
        snippet=cut.text,
        marks=cut.marks,
        updated_at=updated_at,
        tokens=item.tokens,
    )
