"""The dictionary of plain words that forgiving lanes look through: the table `word`.

FTS5's own dictionary would do, but to step over a term it walks all of the term's postings. `word`
may hold words that no document holds any more.
"""

from __future__ import annotations

import apsw
import numpy as np

from service.ranking.sheet import HashedTerms

#: Bounds on the letters of a word; words are ASCII letters, as those that may be misspelt are.
SHORTEST, LONGEST = 2, 64
#: Terms that one writer remembers to have seen, 8 bytes each: at first, and at most; a writer of a
#: small tenant stays small.
SEEN_FIRST, SEEN_MOST = 1 << 12, 1 << 17
#: Words that wait to be written together.
WAITING_MOST = 20_000
_FIRST_LETTER = np.uint8(ord("a"))
_LETTERS = 26


class Words:
    """Adds to the dictionary of one file what it does not hold yet."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        # Terms seen, by hash, one in each place: a term whose place was taken is added again,
        # which changes nothing.
        self._seen = np.zeros(SEEN_FIRST, dtype=np.uint64)
        self._learned = 0
        self._waiting: set[bytes] = set()

    def learn(self, terms: HashedTerms) -> None:
        """Take the words among a document's terms; `write` adds them."""
        initials = np.frombuffer(terms.raw, dtype=np.uint8)[terms.starts]
        (plain,) = (initials - _FIRST_LETTER < _LETTERS).nonzero()
        values = terms.values[plain]
        places = values & np.uint64(len(self._seen) - 1)
        (unseen,) = (self._seen[places] != values).nonzero()
        if not len(unseen):
            return
        self._seen[places[unseen]] = values[unseen]
        self._learned += len(unseen)
        self._waiting.update(terms.at(plain[unseen]))
        if len(self._waiting) > WAITING_MOST:
            self.write()
        if self._learned > len(self._seen) and len(self._seen) < SEEN_MOST:
            self._grow()

    def write(self) -> None:
        """Add the words that were taken, in their order: neighbours lie on one page."""
        words = [
            (term.decode("ascii"),)
            for term in sorted(self._waiting)
            if term.isalpha() and SHORTEST <= len(term) <= LONGEST
        ]
        self._waiting.clear()
        if words:
            self._connection.executemany("INSERT OR IGNORE INTO word(term) VALUES (?)", words)

    def forget(self) -> None:
        """What was learned is not in the file: a transaction was rolled back, a table dropped."""
        self._seen[:] = 0
        self._learned = 0
        self._waiting.clear()

    def _grow(self) -> None:
        known = self._seen[self._seen != 0]
        self._seen = np.zeros(4 * len(self._seen), dtype=np.uint64)
        self._seen[known & np.uint64(len(self._seen) - 1)] = known
        self._learned = len(known)
