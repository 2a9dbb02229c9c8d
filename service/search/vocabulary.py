"""The terms an index knows, asked through FTS5's own dictionary.

A look-up of one term costs about 15 us, a stretch of the dictionary 0.5 us a term; so edits near
the start of a word are looked up one by one, and all others are found in the stretch of terms that
begin alike.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import apsw

from service.ranking import forgive

#: Most terms of one stretch that are read.
STRETCH = 6_000
#: Words whose forms one connection remembers of one index version; forgotten all at once.
REMEMBERED_WORDS = 20_000
LAST = "\U0010ffff"


class Vocabulary:
    """The dictionary of one snapshot; `temp.vocabulary` is set up by `IndexReader`."""

    def __init__(
        self, connection: apsw.Connection, memory: dict[str, list[tuple[str, int]]] | None = None
    ) -> None:
        """Use a connection, and a memory of this index version that outlives the query."""
        self._connection = connection
        self._memory = {} if memory is None else memory

    def forms(self, word: str) -> list[tuple[str, int]]:
        """Other English forms of a word that are in the index; remembered."""
        known = self._memory.get(word)
        if known is None:
            if len(self._memory) >= REMEMBERED_WORDS:
                self._memory.clear()
            known = self._memory[word] = self.known(forgive.inflections(word))
        return known

    def known(self, terms: Iterable[str]) -> list[tuple[str, int]]:
        """Those of the terms that are in the index, each with its number of documents."""
        rows: list[Any] = self._connection.execute(
            "SELECT known.term, known.doc FROM json_each(?) AS wanted"
            " CROSS JOIN temp.vocabulary AS known WHERE known.term = wanted.value",
            (json.dumps(list(terms)),),
        ).fetchall()
        return rows

    def beginning(
        self, head: str, *, shortest: int, longest: int, most: int = STRETCH
    ) -> list[tuple[str, int]]:
        """Terms that begin with `head`, of a length in characters between two bounds."""
        rows: list[Any] = self._connection.execute(
            "SELECT term, doc FROM temp.vocabulary WHERE term >= ? AND term < ?"
            " AND length(term) BETWEEN ? AND ? LIMIT ?",
            (head, head + LAST, shortest, longest, most),
        ).fetchall()
        return rows
