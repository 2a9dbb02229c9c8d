"""The read side of one tenant's file: a snapshot, and what may be asked of it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

import apsw
import orjson

from service.errors import IndexCorrupt, Unavailable
from service.index import schema
from service.index.carried import Carried
from service.index.connection import MMAP_MIB, open_reader
from service.index.document import Document
from service.index.vectors import coverage, read_carried
from service.text import TOKENIZER_VERSION


class IndexReader:
    """One read-only connection; everything is read inside `snapshot()`.

    Not for several threads at once. Numbers such as `version` are those of the snapshot.

    Raises:
        NotFound: no such file.
        IndexCorrupt: not one of our files, or damaged.
        IndexTooNew: a later release wrote it.
        IndexTooOld: an earlier one did, and no writer of this release has opened it yet.
        Unavailable: it stayed locked for longer than `connection.BUSY_TIMEOUT_MS`.
    """

    def __init__(self, path: Path, *, cache_kib: int = 16_384, mmap_mib: int = MMAP_MIB) -> None:
        self.path = path
        self.connection = open_reader(path, cache_kib=cache_kib, mmap_mib=mmap_mib)
        self.meta: dict[str, int] = {}
        self.remembered: dict[str, Any] = {}
        """What searches keep of one version of the file; emptied when another one is seen."""
        try:
            with self._read_transaction():
                _check_versions(schema.read_meta(self.connection))
                schema.check_expected(self.connection)
            self.connection.execute(
                "CREATE VIRTUAL TABLE temp.vocabulary USING fts5vocab(main, doc_fts, row)"
            )
        except BaseException:
            self.connection.close()
            raise

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Hold one state of the file for the block: what is read inside belongs together."""
        with self._read_transaction():
            meta = schema.read_meta(self.connection)
            _check_versions(meta)
            if meta["version"] != self.meta.get("version"):
                self.remembered.clear()
            self.meta = meta
            yield self

    @property
    def version(self) -> int:
        """Committed batches in this snapshot."""
        return self.meta["version"]

    @property
    def committed_at(self) -> int:
        """When the last of them was committed, ms since 1970 on the writer's clock."""
        return self.meta["committed_at"]

    @property
    def docs(self) -> int:
        """Documents in this snapshot."""
        return self.meta["docs"]

    def get(self, keys: Sequence[tuple[str, str]]) -> list[Document | None]:
        """Documents by (kind, ref), in the order asked, None where there is none."""
        return [self._get(kind, ref) for kind, ref in keys]

    def _get(self, kind: str, ref: str) -> Document | None:
        row: Any = self.connection.execute(
            "SELECT title, summary, note, meta, updated_at, identifiers FROM doc"
            " WHERE kind = ? AND ref = ?",
            (kind, ref),
        ).fetchone()
        if row is None:
            return None
        title, summary, note, meta, updated_at, identifiers = row
        return Document(
            kind=kind,
            ref=ref,
            title=title,
            summary=summary,
            note=note,
            meta=meta,
            updated_at=updated_at,
            identifiers=tuple(orjson.loads(identifiers)),
        )

    def carried(self, kind: str, ref: str) -> Carried | None:
        """A document's vectors, to travel with it; None when it has not all of them."""
        return read_carried(self.connection, kind, ref)

    def status(self) -> dict[str, Any]:
        """Documents and vectors by kind, stamps, size in bytes."""
        found: list[Any] = self.connection.execute(
            "SELECT kind, count(*) FROM doc INDEXED BY doc_scope GROUP BY kind ORDER BY kind"
        ).fetchall()
        kinds: dict[str, int] = dict(found)
        pages = self.connection.pragma("page_count") * self.connection.pragma("page_size")
        return {
            "documents": self.docs,
            "documents_by_kind": kinds,
            "vectors": coverage(self.connection, kinds, int(time.time() * 1_000)),
            "version": self.version,
            "committed_at": self.committed_at,
            "schema": self.meta["schema"],
            "tokenizer": self.meta["tokenizer"],
            "layout": self.meta["layout"],
            "bytes": pages,
        }

    @contextmanager
    def _read_transaction(self) -> Iterator[None]:
        """A deferred transaction whose first read takes the lock; damage becomes IndexCorrupt."""
        try:
            self.connection.execute("BEGIN")
            try:
                self.connection.execute("SELECT 1 FROM sqlite_schema LIMIT 1").fetchall()
                yield
            finally:
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
        except (apsw.CorruptError, apsw.NotADBError) as error:
            raise IndexCorrupt(f"{self.path.name} is damaged") from error
        except apsw.BusyError as error:
            raise Unavailable("this file has been busy with a change for too long") from error


def _check_versions(meta: dict[str, int]) -> None:
    schema.refuse_newer(meta, tokenizer_version=TOKENIZER_VERSION)
    schema.refuse_older(meta)
