"""What is derived from a document: token streams, term sheet, words, identifiers.

All of it can be made again from `doc`. Everything happens inside the writer's transaction.
"""

from __future__ import annotations

from typing import Any, Literal

import apsw

from service.errors import IndexCorrupt
from service.index import schema
from service.index.document import Document
from service.index.words import Words
from service.ranking import sheet
from service.text import estimate_tokens, fold_identifier, identifiers_in, index_columns

#: Where an identifier of a document comes from, best first.
OWN_REF, DECLARED, MENTIONED = 0, 1, 2

_INTO_FTS = f"INTO doc_fts(rowid, {', '.join(schema.FTS_COLUMNS)}) VALUES (?,?,?,?,?,?,?,?,?)"
_INTO_SHEET = "INTO doc_sheet(id, sheet) VALUES (?, ?)"


class Derived:
    """The derived tables of one file.

    Attributes:
        title_terms, body_terms: of the whole file; the writer loads and stamps them.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.title_terms = self.body_terms = 0
        self._connection = connection
        self._words = Words(connection)

    def create(self) -> None:
        """Empty tables in place of whatever there is."""
        for name in schema.DERIVED_NAMES:
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._connection.execute(schema.DERIVED_TABLES)
        self.title_terms = self.body_terms = 0
        self._words.forget()

    def add(self, doc_id: int, document: Document) -> None:
        """Write what is derived from a new document."""
        # A plain insert saves looking for what it might replace.
        self._write("INSERT ", doc_id, document, {})

    def replace(self, doc_id: int, document: Document) -> None:
        """Write what is derived from a document that was there with another content."""
        self._count_terms(self._sheet(doc_id), -1)
        linked: Any = self._connection.execute(
            "SELECT token, source FROM ident WHERE doc_id = ?", (doc_id,)
        )
        self._write("INSERT OR REPLACE ", doc_id, document, dict(linked))

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

    def finish(self) -> None:
        """Write what was held back until the end of the batch."""
        self._words.write()

    def join_segments(self) -> None:
        """Make FTS5's index one segment: a term is then found by one look-up."""
        self._connection.execute("INSERT INTO doc_fts(doc_fts) VALUES ('optimize')")

    def rolled_back(self) -> None:
        """The transaction failed."""
        self._words.forget()

    # --- inside

    def _write(self, verb: str, doc_id: int, document: Document, linked: dict[str, int]) -> None:
        """Write all that is derived; `linked` is what `ident` holds of the document before."""
        title, title_sub = index_columns(document.title)
        body = [index_columns(text) for text in (document.summary, document.note, document.meta)]
        streams = (title, *(orig for orig, _ in body), title_sub, *(sub for _, sub in body))
        self._connection.execute(verb + _INTO_FTS, (doc_id, *streams))
        terms = sheet.HashedTerms(f"{title} {title_sub}", " ".join(map(" ".join, body)))
        self._words.learn(terms)
        text = f"{document.title}\n{document.summary}\n{document.note}"
        tokens = 0 if text.isspace() else estimate_tokens(text)
        packed = sheet.pack(terms, tokens=tokens, updated_at=document.updated_at)
        self._connection.execute(verb + _INTO_SHEET, (doc_id, packed))
        self._count_terms(packed, 1)
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
