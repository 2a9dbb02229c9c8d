"""SQLite's own FTS5, untuned: one column, `bm25`, an OR of all that was typed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import apsw

from golden.answers import Found
from golden.lexicon import Document
from golden.peers import engine

#: Engine name -> `tokenize` option of the table (https://sqlite.org/fts5.html#tokenizers).
TOKENIZERS = {
    "fts5-unicode61": "unicode61",
    "fts5-porter": "porter unicode61",
    "fts5-trigram": "trigram",
}
_WORD = re.compile(r"\w+")
_GRAM = 3


class Fts5:
    """One table in memory."""

    def __init__(self, documents: Sequence[Document], *, tokenizer: str) -> None:
        self._documents = documents
        self._cut = _trigrams if tokenizer == "trigram" else _words
        self._connection = apsw.Connection(":memory:")
        self._connection.execute(
            f"CREATE VIRTUAL TABLE doc USING fts5(text, content='', tokenize='{tokenizer}')"
        )
        with self._connection:
            self._connection.executemany(
                "INSERT INTO doc(rowid, text) VALUES (?, ?)",
                ((number, engine.text(d)) for number, d in enumerate(documents)),
            )
            self._connection.execute("INSERT INTO doc(doc) VALUES ('optimize')")

    def search(self, query: str, limit: int) -> list[Found]:
        """See `Engine.search`; a query that holds nothing to look up finds nothing."""
        expression = " OR ".join(f'"{token}"' for token in dict.fromkeys(self._cut(query)))
        if not expression:
            return []
        rows = self._connection.execute(
            "SELECT rowid FROM doc WHERE doc MATCH ? ORDER BY rank LIMIT ?", (expression, limit)
        )
        return engine.found(self._documents, [int(str(row[0])) for row in rows])

    def close(self) -> None:
        """See `Engine.close`."""
        self._connection.close()


def _words(query: str) -> Iterable[str]:
    return _WORD.findall(query.casefold())


def _trigrams(query: str) -> Iterable[str]:
    """Every piece, blanks included, as the tokenizer cuts documents.

    A word as one phrase of its trigrams would have to stand whole: a question in Chinese.
    """
    text = " ".join(query.casefold().replace("\0", " ").split())  # SQL text ends at a NUL
    for start in range(len(text) - _GRAM + 1):
        yield text[start : start + _GRAM].replace('"', '""')
