"""What stood before and after a document, by the time it was last changed."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

from service.errors import NotFound
from service.index.reader import IndexReader
from service.ranking.sheet import Sheets
from service.search.layers import head

TITLE_CHARACTERS: Final = 100
SNIPPET_CHARACTERS: Final = 100
TITLE_TOKENS: Final = 18
SNIPPET_TOKENS: Final = 24
HEAD_CHARACTERS: Final = 400
"""What is read of a text to cut a snippet from."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TimelineRequest:
    """Where to look.

    Attributes:
        kind, ref: the document in the middle.
        before, after: most documents on each side.
        within_kind: only documents of the same kind.
    """

    kind: str
    ref: str
    before: int
    after: int
    within_kind: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Moment:
    """A document in its place; `tokens` is what the full text costs, estimated."""

    kind: str
    ref: str
    title: str
    snippet: str
    updated_at: int
    tokens: int


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    """A document and its neighbours.

    Attributes:
        before: changed earlier, in order of time: the last one is the nearest.
        here: the document itself.
        after: changed later, in order of time: the first one is the nearest.
    """

    before: list[Moment]
    here: Moment
    after: list[Moment]


def around(reader: IndexReader, request: TimelineRequest) -> Timeline:
    """The neighbours of a document, from the reader's current snapshot.

    Equal times are ordered by row, so that walking from neighbour to neighbour meets every document
    once. Costs a walk over the index of times, about 50 ns a document.

    Raises:
        NotFound: there is no such document.
    """
    found: Any = reader.connection.execute(
        "SELECT id, updated_at FROM doc WHERE kind = ? AND ref = ?", (request.kind, request.ref)
    ).fetchone()
    if found is None:
        raise NotFound("there is no such document", hint="Take kind and ref from a hit.")
    row, moment = found
    scope = request.kind if request.within_kind else None
    before = _neighbours(reader, row, moment, scope, request.before, "<", "DESC")
    after = _neighbours(reader, row, moment, scope, request.after, ">", "ASC")
    (here,) = _moments(reader, [row])
    return Timeline(_moments(reader, before[::-1]), here, _moments(reader, after))


def _neighbours(
    reader: IndexReader, row: int, moment: int, kind: str | None, most: int, way: str, order: str
) -> list[int]:
    """Row ids, nearest first."""
    if not most:
        return []
    condition = "" if kind is None else "AND kind = ?"
    bindings: tuple[object, ...] = (moment, row) if kind is None else (moment, row, kind)
    found = reader.connection.execute(
        f"SELECT id FROM doc INDEXED BY doc_scope WHERE (updated_at, id) {way} (?, ?) {condition}"
        f" ORDER BY updated_at {order}, id {order} LIMIT ?",
        (*bindings, most),
    )
    return [int(row) for (row,) in found]


def _moments(reader: IndexReader, rows: list[int]) -> list[Moment]:
    return [_moment(reader, row) for row in rows]


def _moment(reader: IndexReader, row: int) -> Moment:
    found: Any = reader.connection.execute(
        "SELECT kind, ref, title, updated_at, substr(summary, 1, ?), substr(note, 1, ?), sheet"
        " FROM doc LEFT JOIN doc_sheet USING(id) WHERE id = ?",
        (HEAD_CHARACTERS, HEAD_CHARACTERS, row),
    ).fetchone()
    kind, ref, title, updated_at, summary, note, sheet = found
    return Moment(
        kind=kind,
        ref=ref,
        title=head(title, tokens=TITLE_TOKENS, characters=TITLE_CHARACTERS),
        snippet=head(summary or note, tokens=SNIPPET_TOKENS, characters=SNIPPET_CHARACTERS),
        updated_at=updated_at,
        tokens=0 if sheet is None else int(Sheets([sheet]).tokens[0]),
    )
