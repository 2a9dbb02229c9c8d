"""The plain words an index knows, and the terms of any kind that begin alike.

A look-up of one word costs about 1 us, a stretch of the dictionary 0.2 us a word. FTS5's own
dictionary holds identifiers and numbers too; but it walks the postings of every term it steps
over, so it is asked only for what begins with something that is no plain word.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import apsw

from service.ranking import forgive

#: Most words of one stretch that are read.
STRETCH = 6_000
#: Words whose forms one connection remembers of one index version; forgotten all at once.
REMEMBERED_WORDS = 20_000
#: A relative is at most so much longer than what the family begins with.
FAMILY_LETTERS = 8
LAST = "\U0010ffff"


class Vocabulary:
    """The dictionary of one snapshot; `temp.vocabulary` is set up by `IndexReader`."""

    def __init__(
        self, connection: apsw.Connection, memory: dict[str, list[str]] | None = None
    ) -> None:
        """Use a connection, and a memory of this index version that outlives the query."""
        self._connection = connection
        self._memory = {} if memory is None else memory

    def forms(self, word: str) -> list[str]:
        """Other English forms of a word that are in the index; remembered."""
        known = self._memory.get(word)
        if known is None:
            if len(self._memory) >= REMEMBERED_WORDS:
                self._memory.clear()
            known = self._memory[word] = self.known(forgive.inflections(word))
        return known

    def relatives(self, word: str, most: int) -> list[str]:
        """Words of the same family in the index that are no mere inflections; remembered."""
        key = f"{word} {most}"
        known = self._memory.get(key)
        if known is None:
            head = forgive.family_head(word)
            alike = (
                self.beginning(head, shortest=len(head), longest=len(head) + FAMILY_LETTERS)
                if head
                else []
            )
            forms = set(forgive.inflections(word))
            family = [each for each in forgive.relatives(word, alike) if each not in forms]
            known = self._memory[key] = family[:most]
        return known

    def known(self, words: Iterable[str]) -> list[str]:
        """Those of the words that are in the index, in no order."""
        rows: Any = self._connection.execute(
            "SELECT term FROM word WHERE term IN (SELECT value FROM json_each(?))",
            (json.dumps(list(words)),),
        )
        return [term for (term,) in rows]

    def beginning(self, head: str, *, shortest: int, longest: int) -> list[str]:
        """Words that begin with `head`, of a length in letters between two bounds."""
        rows: Any = self._connection.execute(
            "SELECT term FROM word WHERE term >= ? AND term < ?"
            " AND length(term) BETWEEN ? AND ? LIMIT ?",
            (head, head + LAST, shortest, longest, STRETCH),
        )
        return [term for (term,) in rows]

    def terms_beginning(self, head: str, *, longest: int, most: int) -> list[str]:
        """Terms of any kind that are longer than `head` and begin with it."""
        rows: Any = self._connection.execute(
            "SELECT term FROM temp.vocabulary WHERE term > ? AND term < ?"
            " AND length(term) <= ? LIMIT ?",
            (head, head + LAST, longest, most),
        )
        return [term for (term,) in rows]
