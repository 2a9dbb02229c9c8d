"""What is derived from a document: token streams, term sheet, words, identifiers.

All of it can be made again from `doc`. Everything happens inside the writer's transaction.
"""

from __future__ import annotations

from typing import Any, Literal

import apsw

from service.errors import IndexCorrupt
from service.index import schema
from service.index.document import Document
from service.ranking import sheet
from service.text import estimate_tokens, fold_identifier, identifiers_in, index_columns

#: Where an identifier of a document comes from, best first.
OWN_REF, DECLARED, MENTIONED = 0, 1, 2

#: Words known to be in the dictionary, remembered between batches; about 90 bytes each.
WORDS_REMEMBERED = 50_000

_REPLACE_FTS = (
    f"INSERT OR REPLACE INTO doc_fts(rowid, {', '.join(schema.FTS_COLUMNS)})"
    " VALUES (?,?,?,?,?,?,?,?,?)"
)


class Derived:
    """The derived tables of one file.

    Attributes:
        title_terms, body_terms: of the whole file; the writer loads and stamps them.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.title_terms = self.body_terms = 0
        self._connection = connection
        self._words: set[str] = set()

    def create(self) -> None:
        """Empty tables in place of whatever there is."""
        for name in schema.DERIVED_NAMES:
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._connection.execute(schema.DERIVED_TABLES)
        self.title_terms = self.body_terms = 0
        self._words.clear()

    def add(self, doc_id: int, document: Document) -> None:
        """Write what is derived from a new document."""
        self._write(doc_id, document, {})

    def replace(self, doc_id: int, document: Document) -> None:
        """Write what is derived from a document that was there with another content."""
        self._count_terms(self._sheet(doc_id), -1)
        linked: Any = self._connection.execute(
            "SELECT token, source FROM ident WHERE doc_id = ?", (doc_id,)
        )
        self._write(doc_id, document, dict(linked))

    def touch(self, doc_id: int, updated_at: int) -> None:
        """The document has another time and the same content."""
        self._connection.execute(
            "UPDATE doc_sheet SET sheet = ? WHERE id = ?",
            (sheet.touched(self._sheet(doc_id), updated_at), doc_id),
        )

    def remove(self, doc_id: int) -> None:
        """The document is going."""
        self._count_terms(self._sheet(doc_id), -1)
        self._connection.execute("DELETE FROM doc_fts WHERE rowid = ?", (doc_id,))
        self._connection.execute("DELETE FROM doc_sheet WHERE id = ?", (doc_id,))
        self._connection.execute("DELETE FROM ident WHERE doc_id = ?", (doc_id,))

    def join_segments(self) -> None:
        """Make FTS5's index one segment: a term is then found by one look-up."""
        self._connection.execute("INSERT INTO doc_fts(doc_fts) VALUES ('optimize')")

    def committed(self) -> None:
        """The transaction is over: keep what is remembered within its bound."""
        if len(self._words) > WORDS_REMEMBERED:
            self._words.clear()

    def rolled_back(self) -> None:
        """The transaction failed: what was learned in it is not in the file."""
        self._words.clear()

    # --- inside

    def _write(self, doc_id: int, document: Document, linked: dict[str, int]) -> None:
        """Write all that is derived; `linked` is what `ident` holds of the document before."""
        title, title_sub = index_columns(document.title)
        body = [index_columns(text) for text in (document.summary, document.note, document.meta)]
        streams = (title, *(orig for orig, _ in body), title_sub, *(sub for _, sub in body))
        self._connection.execute(_REPLACE_FTS, (doc_id, *streams))
        in_title, in_body = f"{title} {title_sub}", " ".join(map(" ".join, body))
        text = f"{document.title}\n{document.summary}\n{document.note}"
        packed = sheet.encode_columns(
            in_title,
            in_body,
            tokens=estimate_tokens(text.strip()),
            updated_at=document.updated_at,
        )
        self._count_terms(packed, 1)
        self._connection.execute(
            "INSERT OR REPLACE INTO doc_sheet(id, sheet) VALUES (?, ?)", (doc_id, packed)
        )
        self._learn(in_title, in_body)
        self._link(doc_id, _identifiers(document, text), linked)

    def _link(self, doc_id: int, identifiers: dict[str, int], linked: dict[str, int]) -> None:
        if gone := linked.keys() - identifiers.keys():
            self._connection.executemany(
                "DELETE FROM ident WHERE token = ? AND doc_id = ?",
                [(token, doc_id) for token in gone],
            )
        # What stays is left alone: each link lies on another page, and a commit writes pages.
        if new := identifiers.items() - linked.items():
            self._connection.executemany(
                "INSERT OR REPLACE INTO ident(token, doc_id, source) VALUES (?, ?, ?)",
                [(token, doc_id, source) for token, source in new],
            )

    def _learn(self, *columns: str) -> None:
        """Keep plain words in the dictionary that forgiving lanes look through."""
        terms: set[str] = set()
        terms.update(*(column.split() for column in columns))
        new = [(term,) for term in terms - self._words if schema.is_word(term)]
        if new:
            self._connection.executemany("INSERT OR IGNORE INTO word(term) VALUES (?)", new)
            self._words.update(term for (term,) in new)

    def _sheet(self, doc_id: int) -> bytes:
        packed: Any = self._connection.execute(
            "SELECT sheet FROM doc_sheet WHERE id = ?", (doc_id,)
        ).get
        if not isinstance(packed, bytes):
            raise IndexCorrupt("a document has no sheet")
        return packed

    def _count_terms(self, packed: bytes, sign: Literal[1, -1]) -> None:
        title_terms, body_terms = sheet.lengths(packed[:8])
        self.title_terms += sign * title_terms
        self.body_terms += sign * body_terms


def _identifiers(document: Document, text: str) -> dict[str, int]:
    """Folded identifier -> the best place it comes from."""
    found: dict[str, int] = dict.fromkeys(identifiers_in(text), MENTIONED)
    found.update((fold_identifier(token), DECLARED) for token in document.identifiers)
    found[fold_identifier(document.ref)] = OWN_REF
    found.pop("", None)
    return found
