"""Documents as rows of `doc`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw
import orjson

from service.index.document import Document


def read_documents(connection: apsw.Connection) -> Iterator[tuple[int, Document]]:
    """Every document with its row id, in row order."""
    rows: Any = connection.execute(
        "SELECT id, kind, ref, title, summary, note, meta, updated_at, identifiers FROM doc"
        " ORDER BY id"
    )
    for doc_id, kind, ref, title, summary, note, meta, updated_at, identifiers in rows:
        yield (
            doc_id,
            Document(
                kind=kind,
                ref=ref,
                title=title,
                summary=summary,
                note=note,
                meta=meta,
                updated_at=updated_at,
                identifiers=tuple(orjson.loads(identifiers)),
            ),
        )


def columns(document: Document, content_hash: bytes) -> tuple[str | int | bytes, ...]:
    """Of `doc`, without the key: title, updated_at, hash, identifiers, summary, meta, note."""
    return (
        document.title,
        document.updated_at,
        content_hash,
        orjson.dumps(document.identifiers).decode(),
        document.summary,
        document.meta,
        document.note,
    )
