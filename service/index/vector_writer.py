"""The vectors of one tenant's file: write side.

What belongs to a batch happens in the batch's transaction; what is embedded later has transactions
of its own. Nothing here is done for a file that never had a model.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final

import apsw

from service.index import passages
from service.index.carried import Carried
from service.index.document import Document
from service.index.passages import PASSAGE_POLICY, Passage
from service.index.vectors import (
    DIMS_STAMP,
    MODEL_STAMP,
    PERCENT_STAMP,
    POLICY_STAMP,
    coverage,
    read_stamp,
)

#: Where a digest waits that is still right, while the passages behind it are made again.
ASIDE: Final = -1

_INTO_PENDING = (
    "INSERT INTO vec_pending(rank, doc_id, since_ms) VALUES (?, ?, ?)"
    " ON CONFLICT DO UPDATE SET reason = NULL"
)
_INTO_VECTORS = (
    "INSERT OR REPLACE INTO doc_vec(doc_id, seq, begin, end, text_hash, vector)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Pending:
    """A document that lacks vectors.

    Attributes:
        doc_id: its row.
        content_hash: of what was read; what is stored for another content is thrown away.
        document: what it says.
        known: text hash -> vector of the passages that are there already.
    """

    doc_id: int
    content_hash: bytes
    document: Document
    known: Mapping[bytes, bytes]


class VectorWriter:
    """The vectors of one file; as little for several threads at once as its `IndexWriter`.

    Args:
        connection: the file's only writing one.
        transaction: one for its block.
        now_ms: ms since 1970.
    """

    def __init__(
        self,
        connection: apsw.Connection,
        transaction: Callable[[], AbstractContextManager[None]],
        now_ms: Callable[[], int],
    ) -> None:
        self._connection = connection
        self._transaction = transaction
        self._now_ms = now_ms
        self._wanted: bool | None = None
        self.commits = 0
        """Transactions of its own that changed something."""

    # --- inside a batch's transaction

    def added(self, doc_id: int, document: Document) -> None:
        """A document is new: it lacks its vectors."""
        if self._is_wanted():
            self._expect(doc_id, document.kind)

    def replaced(self, doc_id: int, document: Document) -> None:
        """A document says something else: vectors of passages that are no longer there go.

        A passage is still there when the same text stands at the same place. The digest never
        stays where it was, for its presence would say that all the others are right.
        """
        if not self._is_wanted():
            return
        self._expect(doc_id, document.kind)
        rows: list[Any] = self._connection.execute(
            "SELECT seq, begin, end, text_hash FROM doc_vec WHERE doc_id = ?", (doc_id,)
        ).fetchall()
        if not rows:
            return
        text = passages.source(document)
        stale = [
            (doc_id, seq)
            for seq, begin, end, text_hash in rows
            if passages.text_hash(text[begin:end]) != text_hash
        ]
        self._connection.executemany("DELETE FROM doc_vec WHERE doc_id = ? AND seq = ?", stale)
        self._connection.execute(
            "UPDATE OR REPLACE doc_vec SET seq = ? WHERE doc_id = ? AND seq = 0", (ASIDE, doc_id)
        )
        self._connection.execute("DELETE FROM vec_dropped WHERE doc_id = ?", (doc_id,))

    def removed(self, doc_id: int) -> None:
        """A document is going, and all that is known of it."""
        if not self._is_wanted():
            return
        for table in ("doc_vec", "vec_dropped"):
            self._connection.execute(f"DELETE FROM {table} WHERE doc_id = ?", (doc_id,))
        self._no_longer_pending(doc_id)

    def carried(self, document: Document, found: Carried) -> bool:
        """A document came with its vectors; whether they are of this index's kind and were kept.

        Called after `added` or `replaced`. What is there already stays.
        """
        stamp = read_stamp(self._connection)
        if found.model != stamp.model or found.policy != PASSAGE_POLICY or not stamp.current:
            return False
        text = passages.source(document)
        bounds = [place for begin, end, _ in found.passages for place in (begin, end)]
        fits = bounds == sorted(bounds) and bounds[-1] <= len(text)
        if not fits or any(len(vector) != stamp.dims for _, _, vector in found.passages):
            return False
        row: Any = self._connection.execute(
            "SELECT id, content_hash FROM doc JOIN vec_pending ON doc_id = id"
            " WHERE doc.kind = ? AND ref = ? AND rank = ?",
            (document.kind, document.ref, passages.rank(document.kind)),
        ).fetchone()
        if row is None:
            return False
        cut = passages.cut(text, [(begin, end) for begin, end, _ in found.passages]).passages
        vectors = [vector for _, _, vector in found.passages]
        doc_id, content_hash = row
        pending = Pending(doc_id, content_hash, document, {})
        self._complete(pending, list(zip(cut, vectors, strict=True)), found.dropped_chars)
        self.commits += 1
        return True

    def rolled_back(self) -> None:
        """The transaction failed."""
        self._wanted = None

    # --- transactions of its own

    def adopt(self, model: str, dims: int) -> bool:
        """Have vectors of this model, cut by this release's policy; whether that is new.

        Vectors of another model or policy go, and every document lacks its own from then on.
        """
        stamp = read_stamp(self._connection)
        if stamp.model == model and stamp.dims == dims and stamp.current:
            return False
        with self._transaction():
            self._connection.execute("DELETE FROM doc_vec; DELETE FROM vec_pending")
            self._connection.execute("DELETE FROM vec_dropped")
            ranks = " ".join(
                f"WHEN '{kind}' THEN {passages.rank(kind)}" for kind in passages.NAMED_KINDS
            )
            self._connection.execute(
                "INSERT INTO vec_pending(rank, doc_id, since_ms)"
                f" SELECT CASE kind {ranks} ELSE {passages.OTHER_RANK} END, id, ? FROM doc",
                (self._now_ms(),),
            )
            self._stamp({MODEL_STAMP: model, DIMS_STAMP: dims, POLICY_STAMP: PASSAGE_POLICY})
        self._wanted = True
        self.commits += 1
        return True

    def weigh(self, percent: int) -> None:
        """Let vectors weigh so much of the default for this tenant; 0 turns them off."""
        with self._transaction():
            self._stamp({PERCENT_STAMP: percent})
        self.commits += 1

    def pending(self, most: int) -> list[Pending]:
        """Documents that lack vectors and were not given up, light kinds first."""
        rows: Any = self._connection.execute(
            "SELECT doc_id, content_hash, kind, ref, title, summary, note, meta"
            " FROM vec_pending JOIN doc ON doc.id = doc_id WHERE reason IS NULL"
            " ORDER BY rank, doc_id LIMIT ?",
            (most,),
        )
        return [
            Pending(
                doc_id,
                content_hash,
                Document(kind=kind, ref=ref, title=title, summary=summary, note=note, meta=meta),
                self._known(doc_id),
            )
            for doc_id, content_hash, kind, ref, title, summary, note, meta in rows.fetchall()
        ]

    def coverage(self) -> dict[str, Any]:
        """See `service.index.vectors.coverage`."""
        kinds: Any = self._connection.execute(
            "SELECT kind, count(*) FROM doc INDEXED BY doc_scope GROUP BY kind ORDER BY kind"
        ).fetchall()
        return coverage(self._connection, dict(kinds), self._now_ms())

    def save(
        self,
        found: Sequence[tuple[Pending, Sequence[tuple[Passage, bytes]], bool, int]],
    ) -> None:
        """Store vectors as far as they are made; one transaction.

        Args:
            found: for each document its passages with their vectors in rising order, whether these
                are all, and how many characters are in none. Of a document that is not complete,
                the digest is left out until it is.
        """
        with self._transaction():
            for pending, vectors, complete, dropped_chars in found:
                if not self._is_still(pending):
                    continue  # it changed meanwhile, and is pending again
                if complete:
                    self._complete(pending, vectors, dropped_chars)
                else:
                    rows = [_row(pending, passage, vector) for passage, vector in vectors]
                    self._connection.executemany(_INTO_VECTORS, [r for r in rows if r[1] != 0])
        self.commits += 1

    def arrange(self, pending: Pending, cut: Sequence[Passage]) -> None:
        """Put the vectors that are there already where their passages are now; the rest goes."""
        kept = [(p, pending.known[p.text_hash]) for p in cut if p.text_hash in pending.known]
        with self._transaction():
            if not self._is_still(pending):
                return
            self._connection.execute("DELETE FROM doc_vec WHERE doc_id = ?", (pending.doc_id,))
            rows = [_row(pending, passage, vector) for passage, vector in kept]
            aside = [row if row[1] else (row[0], ASIDE, *row[2:]) for row in rows]
            self._connection.executemany(_INTO_VECTORS, aside)
        self.commits += 1

    def quarantine(self, pending: Pending, reason: str) -> None:
        """Give a document up until it changes."""
        with self._transaction():
            if self._is_still(pending):
                self._connection.execute(
                    "UPDATE vec_pending SET reason = ? WHERE rank = ? AND doc_id = ?",
                    (reason, passages.rank(pending.document.kind), pending.doc_id),
                )
                # What it has is of no use without the rest.
                self._connection.execute("DELETE FROM doc_vec WHERE doc_id = ?", (pending.doc_id,))
        self.commits += 1

    # --- inside

    def _complete(
        self, pending: Pending, vectors: Sequence[tuple[Passage, bytes]], dropped_chars: int
    ) -> None:
        doc_id = pending.doc_id
        self._connection.execute("DELETE FROM doc_vec WHERE doc_id = ?", (doc_id,))
        rows = [_row(pending, passage, vector) for passage, vector in vectors]
        self._connection.executemany(_INTO_VECTORS, reversed(rows))  # seq 0 last
        if dropped_chars:
            self._connection.execute(
                "INSERT OR REPLACE INTO vec_dropped(doc_id, chars) VALUES (?, ?)",
                (doc_id, dropped_chars),
            )
        self._no_longer_pending(doc_id)

    def _known(self, doc_id: int) -> dict[bytes, bytes]:
        rows: Any = self._connection.execute(
            "SELECT text_hash, vector FROM doc_vec WHERE doc_id = ?", (doc_id,)
        )
        return dict(rows.fetchall())

    def _is_still(self, pending: Pending) -> bool:
        found = self._connection.execute(
            "SELECT content_hash FROM doc WHERE id = ?", (pending.doc_id,)
        ).get
        return bool(found == pending.content_hash)

    def _is_wanted(self) -> bool:
        if self._wanted is None:
            self._wanted = read_stamp(self._connection).model is not None
        return self._wanted

    def _expect(self, doc_id: int, kind: str) -> None:
        self._connection.execute(_INTO_PENDING, (passages.rank(kind), doc_id, self._now_ms()))

    def _no_longer_pending(self, doc_id: int) -> None:
        self._connection.executemany(
            "DELETE FROM vec_pending WHERE rank = ? AND doc_id = ?",
            [(rank, doc_id) for rank in range(passages.RANKS)],
        )

    def _stamp(self, stamps: Mapping[str, str | int]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", stamps.items()
        )


def _row(pending: Pending, passage: Passage, vector: bytes) -> tuple[Any, ...]:
    place = passage.begin, passage.end, passage.text_hash
    return (pending.doc_id, passage.seq, *place, vector)
