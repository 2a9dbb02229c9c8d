"""Which documents match an expression: scans of `doc_fts`, bounded, remembered for one query."""

from __future__ import annotations

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Sequence
from functools import cached_property
from typing import Any, Literal, TypeVar

import apsw
import numpy as np
from numpy.typing import NDArray

from service.ranking import lanes
from service.ranking.terms import PREFIX_MARK, expression

_T = TypeVar("_T")
Ids = NDArray[np.int64]
NOTHING: Ids = np.empty(0, dtype=np.int64)

#: Most documents one scan returns, newest rows first. About 0.1 ms at 65 ns a document.
SCAN_LIMIT = 1_000
#: Postings that a scan for a term in titles steps over, about 40 ns each.
TITLE_WALK = 8_000
#: Row ids (8 bytes each) and expressions that one connection remembers of one index version.
REMEMBERED_ROWS = 500_000
REMEMBERED_TERMS = 20_000
#: How many windows of how many rows estimate the frequency of a term that overran a scan.
SAMPLE_WINDOWS = 4
SAMPLE_ROWS = 1_024


@dataclasses.dataclass(frozen=True, slots=True)
class Scope:
    """The part of a tenant's memory that a query is about; empty means all of it.

    Times are ms since 1970, both ends included.
    """

    kinds: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    updated_after_ms: int | None = None
    updated_before_ms: int | None = None

    def __bool__(self) -> bool:
        return bool(self.kinds or self.refs) or (
            self.updated_after_ms is not None or self.updated_before_ms is not None
        )

    def condition(self) -> tuple[str, list[str | int]]:
        """SQL on `doc` and its bindings."""
        terms: list[str] = []
        bindings: list[str | int] = []
        for column, values in (("kind", self.kinds), ("ref", self.refs)):
            if values:
                terms.append(f"{column} IN ({','.join('?' * len(values))})")
                bindings += values
        for operator, time in ((">=", self.updated_after_ms), ("<=", self.updated_before_ms)):
            if time is not None:
                terms.append(f"updated_at {operator} ?")
                bindings.append(time)
        return " AND ".join(terms) or "1", bindings


class Memory:
    """Scans of one index version that later queries ask again: words of a language repeat.

    Bounded by the row ids and the expressions it holds; the least recently asked go first.
    """

    def __init__(self) -> None:
        self._scans: OrderedDict[tuple[str, int, int], Ids] = OrderedDict()
        self._rows = 0
        self.frequencies: OrderedDict[str, int] = OrderedDict()

    def get(self, key: tuple[str, int, int]) -> Ids | None:
        """A scan that is remembered."""
        found = self._scans.get(key)
        if found is not None:
            self._scans.move_to_end(key)
        return found

    def put(self, key: tuple[str, int, int], ids: Ids) -> None:
        """Remember a scan."""
        self._scans[key] = ids
        self._rows += len(ids)
        while self._rows > REMEMBERED_ROWS or len(self._scans) > REMEMBERED_TERMS:
            self._rows -= len(self._scans.popitem(last=False)[1])

    def put_frequency(self, expression: str, frequency: int) -> None:
        """Remember a frequency."""
        self.frequencies[expression] = frequency
        if len(self.frequencies) > REMEMBERED_TERMS:
            self.frequencies.popitem(last=False)


class Postings:
    """Scans of one snapshot within one scope.

    A scan's cost does not grow with the index: it stops after its limit, and the frequency of a
    term that overran is estimated from a fixed number of rows.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        scope: Scope,
        *,
        required: Sequence[str] = (),
        excluded: Sequence[str] = (),
        memory: Memory | None = None,
    ) -> None:
        self._connection = connection
        # What a scope or a requirement narrows belongs to this query alone.
        narrowed = bool(scope or required or excluded)
        self._memory = Memory() if memory is None or narrowed else memory
        self._last_row: int | None = None
        self._required, self._excluded = required, excluded
        self._condition, self._bindings = scope.condition()
        # The scope belongs inside the scan: after a cut it would drop what was asked for.
        if scope.refs:
            self._scoped = f" AND rowid IN (SELECT id FROM doc WHERE {self._condition})"
        elif scope:
            self._scoped = (
                " AND EXISTS (SELECT 1 FROM doc INDEXED BY doc_scope"
                f" WHERE doc.id = doc_fts.rowid AND {self._condition})"
            )
        else:
            self._scoped = ""
        self.scans = 0

    def ids(
        self, expression: str, limit: int = SCAN_LIMIT, *, above: int = 0, few: bool = False
    ) -> Ids:
        """Row ids above one of the documents that match, newest rows first, at most `limit`.

        With `few`, no more than that are expected, which saves a third of the cost where terms
        must meet: FTS5 skips forwards only.
        """
        key = (expression, limit, above)
        found = self._memory.get(key)
        if found is None:
            self.scans += 1
            found = self._scan(expression, limit + 1, above, "ASC")[::-1] if few else NOTHING
            if not few or len(found) > limit:
                found = self._scan(expression, limit, above, "DESC")
            self._memory.put(key, found)
        return found

    def together(self, expression: str, terms: Sequence[str], limit: int, *, above: int = 0) -> Ids:
        """As `ids`, for an expression that asks for all of these terms in one document.

        Where the terms are so common that to walk their postings would take too long, only the
        newest rows are looked at.
        """
        floor = self.floor(self._meeting(terms))
        return self.ids(expression, limit, above=max(above, floor), few=True)

    def holding(self, term: str) -> Ids:
        """Documents that hold a looked-up term (see `ranking.terms.expression`), newest first."""
        return self.ids(expression(term), above=self._floor_of(term), few=_is_phrase(term))

    def in_title(self, term: str, limit: int) -> Ids:
        """Documents with a looked-up term in their title, newest first."""
        above = self.floor(self._walk_of(term), TITLE_WALK)
        return self.ids("{title tsub} : " + expression(term), limit, above=above)

    def all_holding(self, term: str) -> Ids | None:
        """As `holding`; None when there may be more than a scan returns."""
        found = self.holding(term)
        return None if len(found) >= SCAN_LIMIT or self._floor_of(term) else found

    def floor(self, walked: int, limit: int = lanes.WALK_LIMIT) -> int:
        """See `lanes.floor`."""
        return lanes.floor(walked, self.last_row, limit) if walked > limit else 0

    @property
    def last_row(self) -> int:
        """The newest row of the index."""
        if self._last_row is None:
            self._last_row = int(self._connection.execute("SELECT max(rowid) FROM doc").get or 0)
        return self._last_row

    @cached_property
    def barren(self) -> bool:
        """Whether no document of the index has all that is required together."""
        if not self._required:
            return False
        every = " AND ".join(self._required)
        rows = self._connection.execute(
            "SELECT 1 FROM doc_fts WHERE doc_fts MATCH ? LIMIT 1", (every,)
        )
        return rows.fetchone() is None

    def frequency(self, term: str) -> int:
        """How many documents of the scope hold a looked-up term; an estimate for common ones."""
        known = self._memory.frequencies.get(term)
        if known is None:
            known = found = len(self.holding(term))
            if floor := self._floor_of(term):
                known = round(found * self.last_row / (self.last_row - floor))
            elif found >= SCAN_LIMIT:
                known = max(found, self._sample(expression(term)))
            self._memory.put_frequency(term, known)
        return known

    def keep(self, found: dict[int, _T]) -> dict[int, _T]:
        """Of documents found elsewhere, those that pass what is required and excluded."""
        if not found or not (self._required or self._excluded):
            return found
        wanted = json.dumps(list(found))
        kept = dict(found)
        for required in self._required:
            held = self._among(required, wanted)
            kept = {row: match for row, match in kept.items() if row in held}
        for excluded in self._excluded:
            held = self._among(excluded, wanted)
            kept = {row: match for row, match in kept.items() if row not in held}
        return kept

    def recent(self, limit: int, *, offset: int = 0) -> Ids:
        """Rows of the scope by falling `updated_at`; what is required or excluded counts too."""
        condition = self._condition
        bindings = list(self._bindings)
        for operator, expressions in (("IN", self._required), ("NOT IN", self._excluded)):
            for each in expressions:
                condition += f" AND id {operator} (SELECT rowid FROM doc_fts WHERE doc_fts MATCH ?)"
                bindings.append(each)
        rows = self._connection.execute(
            f"SELECT id FROM doc WHERE {condition} ORDER BY updated_at DESC, id DESC"
            " LIMIT ? OFFSET ?",
            (*bindings, limit, offset),
        )
        return np.array([row for (row,) in rows], dtype=np.int64)

    def _floor_of(self, term: str) -> int:
        """The row above which a scan for a term stays bounded; that of a word ends by itself."""
        return self.floor(self._walk_of(term)) if _is_phrase(term) else 0

    def _walk_of(self, term: str) -> int:
        """Postings that a scan for a looked-up term steps over in the whole index, about."""
        return self._meeting(term.split(" ")) if _is_phrase(term) else self.frequency(term)

    def _meeting(self, terms: Sequence[str]) -> int:
        frequencies = [self.frequency(term) for term in dict.fromkeys(terms)]
        return lanes.walk(frequencies) if all(frequencies) else 0

    def _among(self, expression: str, wanted: str) -> set[int]:
        rows = self._connection.execute(
            "SELECT rowid FROM doc_fts WHERE doc_fts MATCH ?"
            " AND rowid IN (SELECT value FROM json_each(?))",
            (expression, wanted),
        )
        return {row for (row,) in rows}

    def _bounded(self, expression: str) -> str:
        """The expression with what the user requires and excludes."""
        for required in self._required:
            expression = f"({expression}) AND {required}"
        for excluded in self._excluded:
            expression = f"({expression}) NOT {excluded}"
        return expression

    def _scan(self, expression: str, limit: int, above: int, order: Literal["ASC", "DESC"]) -> Ids:
        # One string of ids costs a third of one Python row an id.
        text: Any = self._connection.execute(
            "SELECT group_concat(id) FROM (SELECT rowid AS id FROM doc_fts WHERE doc_fts MATCH ?"
            f" AND rowid > ?{self._scoped} ORDER BY rowid {order} LIMIT ?)",
            (self._bounded(expression), above, *self._bindings, limit),
        ).get
        return NOTHING if text is None else np.fromstring(text, dtype=np.int64, sep=",")

    def _sample(self, expression: str) -> int:
        expression = self._bounded(expression)
        stride = self.last_row // SAMPLE_WINDOWS
        if stride <= SAMPLE_ROWS:
            return int(
                self._connection.execute(
                    f"SELECT count(*) FROM doc_fts WHERE doc_fts MATCH ?{self._scoped}",
                    (expression, *self._bindings),
                ).get
            )
        hits = 0
        for low in range(0, stride * SAMPLE_WINDOWS, stride):
            hits += self._connection.execute(
                "SELECT count(*) FROM doc_fts WHERE doc_fts MATCH ? AND rowid > ? AND rowid <= ?"
                f"{self._scoped}",
                (expression, low, low + SAMPLE_ROWS, *self._bindings),
            ).get
        return int(hits * self.last_row / (SAMPLE_WINDOWS * SAMPLE_ROWS))


def _is_phrase(term: str) -> bool:
    """Whether words must stand together, which walks through all of their postings."""
    return " " in term and not term.endswith(PREFIX_MARK)
