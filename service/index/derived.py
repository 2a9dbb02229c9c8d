"""What is derived from a document: token streams, term sheet, words, identifiers.

All of it can be made again from `doc`. Everything happens inside the writer's transaction.
"""

from __future__ import annotations

from typing import Any, Final, Literal, NamedTuple

import apsw

from service.errors import IndexCorrupt
from service.index import schema
from service.index.document import Document
from service.index.words import Words
from service.ranking import sheet
from service.text import estimate_tokens, fold_identifier, identifiers_in, index_columns

#: Where an identifier of a document comes from, best first.
OWN_REF, DECLARED, MENTIONED = 0, 1, 2

#: Sheets are made of so many characters of terms at once, some 16 documents: what numpy costs is by
#: the call, and of more the arrays leave the processor's nearest caches.
HELD_CHARS: Final = 32_000
#: Identifiers that wait to be written together.
LINKS_MOST: Final = 20_000

_INTO_FTS = f"INTO doc_fts(rowid, {', '.join(schema.FTS_COLUMNS)}) VALUES (?,?,?,?,?,?,?,?,?)"


class _Held(NamedTuple):
    """A document whose sheet is not made yet."""

    doc_id: int
    terms: tuple[str, str]
    tokens: int
    updated_at: int


class Derived:
    """The derived tables of one file.

    Attributes:
        title_terms, body_terms: of the whole file; the writer loads and stamps them.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self.title_terms = self.body_terms = 0
        self._connection = connection
        self._words = Words(connection)
        self._held: list[_Held] = []
        self._held_chars = 0
        self._links: list[tuple[str, int, int]] = []

    def create(self) -> None:
        """Empty tables in place of whatever there is."""
        for name in schema.DERIVED_NAMES:
            self._connection.execute(f"DROP TABLE IF EXISTS {name}")
        self._connection.execute(schema.DERIVED_TABLES)
        self.title_terms = self.body_terms = 0
        self.rolled_back()

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
        """Write what was held back, at the end of the batch."""
        self._write_sheets()
        self._write_links()
        self._words.write()

    def join_segments(self) -> None:
        """Make FTS5's index one segment: a term is then found by one look-up."""
        self._connection.execute("INSERT INTO doc_fts(doc_fts) VALUES ('optimize')")

    def rolled_back(self) -> None:
        """The transaction failed."""
        self._held.clear()
        self._held_chars = 0
        self._links.clear()
        self._words.forget()

    # --- inside

    def _write(self, verb: str, doc_id: int, document: Document, linked: dict[str, int]) -> None:
        """Write all that is derived; `linked` is what `ident` holds of the document before."""
        title, title_sub = index_columns(document.title)
        body = [index_columns(text) for text in (document.summary, document.note, document.meta)]
        streams = (title, *(orig for orig, _ in body), title_sub, *(sub for _, sub in body))
        self._connection.execute(verb + _INTO_FTS, (doc_id, *streams))
        terms = f"{title} {title_sub}", " ".join(map(" ".join, body))
        text = f"{document.title}\n{document.summary}\n{document.note}"
        tokens = 0 if text.isspace() else estimate_tokens(text)
        self._held.append(_Held(doc_id, terms, tokens, document.updated_at))
        self._held_chars += len(terms[1])
        if self._held_chars > HELD_CHARS:
            self._write_sheets()
        self._link(doc_id, _identifiers(document, text), linked)

    def _write_sheets(self) -> None:
        ids, terms, tokens, times = zip(*self._held, strict=True) if self._held else ((),) * 4
        self._held.clear()
        self._held_chars = 0
        hashed = sheet.HashedTerms(terms)
        self._words.learn(hashed)
        sheets = sheet.pack(hashed, tokens=tokens, updated_at=times)
        for packed in sheets:
            self._count_terms(packed, 1)
        self._connection.executemany(
            "INSERT OR REPLACE INTO doc_sheet(id, sheet) VALUES (?, ?)",
            zip(ids, sheets, strict=True),
        )

    def _link(self, doc_id: int, identifiers: dict[str, int], linked: dict[str, int]) -> None:
        if gone := linked.keys() - identifiers.keys():
            self._connection.executemany(
                "DELETE FROM ident WHERE token = ? AND doc_id = ?",
                [(token, doc_id) for token in gone],
            )
        # What stays is left alone: each link lies on another page, and a commit writes pages.
        new = identifiers.items() - linked.items()
        self._links += [(token, doc_id, source) for token, source in new]
        if len(self._links) > LINKS_MOST:
            self._write_links()

    def _write_links(self) -> None:
        """Add the links in their order: neighbours lie on one page."""
        self._links.sort()
        if self._links:
            self._connection.executemany(
                "INSERT OR REPLACE INTO ident(token, doc_id, source) VALUES (?, ?, ?)", self._links
            )
        self._links.clear()

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
