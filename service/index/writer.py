"""The write side of one tenant's file: one transaction a batch, versions, tombstones.

A crash at any instruction leaves the file as it was before the batch or after it. The row id of
a document is kept when it is updated. An unchanged content hash costs one look-up.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import orjson

from service.errors import Conflict, TooLarge
from service.index import schema
from service.index.connection import open_writer
from service.index.derived import Derived
from service.index.document import Delete, Document, Operation, Upsert
from service.index.rows import columns, read_documents
from service.index.vector_writer import VectorWriter
from service.text import TOKENIZER_VERSION

Result = Literal[
    "created", "updated", "touched", "unchanged", "older", "deleted", "absent", "superseded"
]

#: A batch that changes so many documents ends with one segment in FTS5's index, once those changed
#: since the last time are this share of all: each term is then one look-up instead of one a
#: segment, and over all batches every document is written about three times.
BULK_DOCUMENTS = 500
LOOSE_SHARE = 0.5


@dataclasses.dataclass(frozen=True, slots=True)
class LineResult:
    """What became of one line of a batch."""

    line: int
    kind: str
    ref: str
    result: Result


@dataclasses.dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of a batch; `version` is the index version that holds it."""

    version: int
    results: list[LineResult]
    replayed: bool = False
    carried: int = 0
    """Documents that came with vectors."""
    kept: int = 0
    """Those whose vectors are of the index's model and were kept."""


class IndexWriter:
    """The only writer of one file. Not for several threads at once.

    Args:
        path: the file; created when missing.
        clock: seconds since 1970, for `committed_at`.
        documents_most: the setting `tenant_documents`.
        idempotency_keys_most: the setting `idempotency_keys`.
        cache_kib: the setting `sqlite_writer_cache_kib`.

    Raises:
        IndexTooNew: a later release wrote the file; it is left alone.
        IndexCorrupt: not one of our files.
    """

    def __init__(
        self,
        path: Path,
        *,
        clock: Callable[[], float] = time.time,
        documents_most: int = 2_000_000,
        idempotency_keys_most: int = 1_000,
        cache_kib: int = 8_192,
    ) -> None:
        self._clock = clock
        self._documents_most = documents_most
        self._idempotency_keys_most = idempotency_keys_most
        self._connection = open_writer(path, cache_kib=cache_kib)
        self._derived = Derived(self._connection)
        self.vectors = VectorWriter(self._connection, self._transaction, self._now_ms)
        """What is embedded of the documents."""
        try:
            self._pass_gates()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; nothing is checkpointed."""
        self._connection.close()

    @property
    def version(self) -> int:
        """The number of committed batches that changed something."""
        return schema.read_meta(self._connection)["version"]

    def apply(
        self,
        operations: Sequence[Operation],
        *,
        idempotency_key: str | None = None,
        body_digest: bytes = b"",
    ) -> BatchResult:
        """Commit a batch, all of it or nothing.

        Of several operations on one document the last counts. A batch that changes nothing does
        not grow the version. With an `idempotency_key` seen before, the first answer is returned
        and nothing is done.

        Raises:
            Conflict: the key came with another body before.
            TooLarge: the tenant would hold more documents than it may.
        """
        with self._transaction():
            if idempotency_key is not None:
                known = self._replay(idempotency_key, body_digest)
                if known is not None:
                    return known
            result = self._apply(operations)
            if idempotency_key is not None:
                self._remember(idempotency_key, body_digest, result)
        if len(operations) >= BULK_DOCUMENTS:
            # Many files may be open at once, and few of them are filled at the same time.
            self._connection.execute("PRAGMA shrink_memory")
        return result

    # --- one batch

    def _apply(self, operations: Sequence[Operation]) -> BatchResult:
        last = {operation.key: operation.line for operation in operations}
        meta = schema.read_meta(self._connection)
        version = meta["version"] + 1
        docs, results, changed, carried, kept = meta["docs"], [], False, 0, 0
        self._derived.title_terms = meta["title_terms"]
        self._derived.body_terms = meta["body_terms"]
        for operation in operations:
            result: Result
            if last[operation.key] != operation.line:
                result = "superseded"
            elif isinstance(operation, Delete):
                result = self._delete(operation, version)
                changed = changed or (result == "absent" and self._bury(operation, version))
            else:
                result = self._upsert(operation)
                if operation.vectors is not None and result != "older":
                    carried += 1
                    kept += self.vectors.carried(operation.document, operation.vectors)
            docs += (result == "created") - (result == "deleted")
            changed = changed or result in ("created", "updated", "touched", "deleted")
            results.append(LineResult(operation.line, *operation.key, result))
        if docs > max(self._documents_most, meta["docs"]):
            raise TooLarge(
                f"the batch would bring the tenant to {docs} documents,"
                f" the most is {self._documents_most}",
                limit="tenant_documents",
                hint="Delete documents first, or raise the limit.",
            )
        if not changed:
            return BatchResult(meta["version"], results, carried=carried, kept=kept)
        self._derived.finish()
        rewritten = sum(line.result in ("created", "updated") for line in results)
        self._stamp(
            docs=docs,
            loose=self._tidy(rewritten, meta.get("loose", 0) + rewritten, docs),
            **self._length_stamps(),
            **self._commit_stamps(version),
        )
        return BatchResult(version, results, carried=carried, kept=kept)

    def _tidy(self, rewritten: int, loose: int, docs: int) -> int:
        """After a large batch join FTS5's segments; how many documents are loose then."""
        if rewritten < BULK_DOCUMENTS or loose < LOOSE_SHARE * docs:
            return loose
        self._derived.join_segments()
        return 0

    def _upsert(self, operation: Upsert) -> Result:
        document = operation.document
        content_hash = document.content_hash()
        row: Any = self._connection.execute(
            "SELECT id, content_hash, updated_at FROM doc WHERE kind = ? AND ref = ?", operation.key
        ).fetchone()
        if operation.if_newer and self._outranked(operation, content_hash, row):
            return "older"
        if row is None:
            self._insert(document, content_hash)
            self._connection.execute(
                "DELETE FROM tombstone WHERE kind = ? AND ref = ?", operation.key
            )
            return "created"
        doc_id, old_hash, updated_at = row
        if old_hash == content_hash:
            if updated_at == document.updated_at:
                return "unchanged"
            self._connection.execute(
                "UPDATE doc SET updated_at = ? WHERE id = ?", (document.updated_at, doc_id)
            )
            self._derived.touch(doc_id, document.updated_at)
            return "touched"
        self._connection.execute(
            "UPDATE doc SET title = ?, updated_at = ?, content_hash = ?, identifiers = ?,"
            " summary = ?, meta = ?, note = ? WHERE id = ?",
            (*columns(document, content_hash), doc_id),
        )
        self._derived.replace(doc_id, document)
        self.vectors.replaced(doc_id, document)
        return "updated"

    def _outranked(self, operation: Upsert, content_hash: bytes, row: Any) -> bool:
        """Whether what is there, or its deletion, wins over this version.

        The order is total: by `updated_at`, then a deletion, then the greater hash. So the same
        versions and deletions lead to the same end, in whatever order they arrive.
        """
        ours = operation.document.updated_at
        if row is not None:
            return bool((ours, content_hash) < (row[2], row[1]))
        gone_at = self._gone_at(operation.key)
        return gone_at is not None and ours <= gone_at

    def _delete(self, operation: Delete, version: int) -> Result:
        row: Any = self._connection.execute(
            "SELECT id, updated_at FROM doc WHERE kind = ? AND ref = ?", operation.key
        ).fetchone()
        if row is None:
            return "absent"
        doc_id, updated_at = row
        if operation.if_newer:
            if updated_at > operation.updated_at:
                return "older"
            updated_at = operation.updated_at
        self._derived.remove(doc_id)
        self.vectors.removed(doc_id)
        self._connection.execute("DELETE FROM doc WHERE id = ?", (doc_id,))
        self._connection.execute(
            "INSERT OR REPLACE INTO tombstone(kind, ref, version, updated_at) VALUES (?, ?, ?, ?)",
            (*operation.key, version, updated_at),
        )
        return "deleted"

    def _bury(self, operation: Delete, version: int) -> bool:
        """Remember a deletion of what is not there (yet); whether that is news."""
        gone_at = self._gone_at(operation.key)
        if not operation.if_newer or (gone_at is not None and gone_at >= operation.updated_at):
            return False
        self._connection.execute(
            "INSERT OR REPLACE INTO tombstone(kind, ref, version, updated_at) VALUES (?, ?, ?, ?)",
            (*operation.key, version, operation.updated_at),
        )
        return True

    def _gone_at(self, key: tuple[str, str]) -> int | None:
        """Up to which `updated_at` a document is deleted; None when nobody deleted it."""
        row: Any = self._connection.execute(
            "SELECT updated_at FROM tombstone WHERE kind = ? AND ref = ?", key
        ).fetchone()
        return None if row is None else row[0]

    def _insert(self, document: Document, content_hash: bytes) -> None:
        self._connection.execute(
            "INSERT INTO doc(kind, ref, title, updated_at, content_hash, identifiers, summary,"
            " meta, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (document.kind, document.ref, *columns(document, content_hash)),
        )
        doc_id = self._connection.last_insert_rowid()
        self._derived.add(doc_id, document)
        self.vectors.added(doc_id, document)

    # --- gates, stamps, transactions

    def _pass_gates(self) -> None:
        with self._transaction():
            if not self._connection.execute(
                "SELECT 1 FROM sqlite_schema WHERE name = 'doc'"
            ).fetchone():
                schema.create(self._connection, tokenizer_version=TOKENIZER_VERSION)
                return
            meta = schema.read_meta(self._connection)
            schema.refuse_newer(meta, tokenizer_version=TOKENIZER_VERSION)
            if meta["schema"] in schema.INCOMPLETE:
                schema.add_missing(self._connection)
                self._stamp(schema=schema.SCHEMA_VERSION)
                meta["schema"] = schema.SCHEMA_VERSION
            current = (meta["schema"], meta["tokenizer"], meta["layout"])
            if current != (schema.SCHEMA_VERSION, TOKENIZER_VERSION, schema.LAYOUT_VERSION):
                self._rebuild(meta["version"] + 1)

    def _rebuild(self, version: int) -> None:
        """Make everything derived again from `doc`; the stamps come last."""
        schema.add_missing(self._connection)
        self._derived.create()
        for doc_id, document in read_documents(self._connection):
            self._derived.add(doc_id, document)
        self._derived.finish()
        self._derived.join_segments()
        self._stamp(
            **self._length_stamps(),
            **self._commit_stamps(version),
            tokenizer=TOKENIZER_VERSION,
            layout=schema.LAYOUT_VERSION,
            schema=schema.SCHEMA_VERSION,
        )

    def _commit_stamps(self, version: int) -> dict[str, int]:
        return {"version": version, "committed_at": self._now_ms()}

    def _now_ms(self) -> int:
        return int(self._clock() * 1000)

    def _length_stamps(self) -> dict[str, int]:
        return {
            "title_terms": self._derived.title_terms,
            "body_terms": self._derived.body_terms,
        }

    def _stamp(self, **stamps: int) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO meta(key, value) VALUES (?, ?)", stamps.items()
        )

    def _replay(self, key: str, body_digest: bytes) -> BatchResult | None:
        row: Any = self._connection.execute(
            "SELECT body_digest, version, results FROM idempotency WHERE key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        if row[0] != body_digest:
            raise Conflict("this Idempotency-Key came with another body before")
        results = [LineResult(*item) for item in orjson.loads(row[2])]
        return BatchResult(row[1], results, replayed=True)

    def _remember(self, key: str, body_digest: bytes, result: BatchResult) -> None:
        packed = orjson.dumps([dataclasses.astuple(line) for line in result.results])
        self._connection.execute(
            "INSERT INTO idempotency(key, body_digest, version, results) VALUES (?, ?, ?, ?)",
            (key, body_digest, result.version, packed),
        )
        self._connection.execute(
            "DELETE FROM idempotency WHERE rowid <= (SELECT max(rowid) FROM idempotency) - ?",
            (self._idempotency_keys_most,),
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """BEGIN IMMEDIATE .. COMMIT; anything raised inside rolls back."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            self._derived.rolled_back()
            self.vectors.rolled_back()
            raise
