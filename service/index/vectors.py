"""The vectors of one tenant's file: read side.

`doc_vec` holds a document's passages, seq 0 being its digest, which is written last: where it is,
all of them are. `vec_pending` holds the documents that lack some of theirs, with the reason where
one was given up, and `vec_dropped` how many characters of a document are in no passage. `meta` says
which model made the vectors and how documents were cut: vectors of different ones are never
compared.

None of this grows the file's version: no answer without vectors changes by it.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray

from service.errors import IndexCorrupt
from service.index.carried import Carried
from service.index.passages import PASSAGE_POLICY

MODEL_STAMP: Final = "vec_model"
DIMS_STAMP: Final = "vec_dims"
POLICY_STAMP: Final = "vec_policy"
PERCENT_STAMP: Final = "semantic_percent"
STAMPS: Final = (MODEL_STAMP, DIMS_STAMP, POLICY_STAMP, PERCENT_STAMP)
PERCENT_FULL: Final = 100
REASONS_SHOWN: Final = 10
"""Most different reasons of quarantined documents that a status names."""


@dataclasses.dataclass(frozen=True, slots=True)
class VectorStamp:
    """What a file's `meta` says of its vectors.

    Attributes:
        model: which model made them; None when there were never any.
        dims: of each.
        current: they were cut by the passage policy of this release.
        percent: how much the tenant lets them weigh, 0 to 100 of the default; 0 is off.
    """

    model: str | None
    dims: int
    current: bool
    percent: int


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """The passages of some documents.

    Attributes:
        vectors: int8 (m, dims).
        owners: int64 (m,), the place of each passage's document among those asked for.
    """

    vectors: NDArray[np.int8]
    owners: NDArray[np.int64]


def read_stamp(connection: apsw.Connection) -> VectorStamp:
    """What the file says of its vectors; also of a file that is older than vectors."""
    rows: list[Any] = connection.execute(
        "SELECT key, value FROM meta WHERE key IN (?, ?, ?, ?)", STAMPS
    ).fetchall()
    found = dict(rows)
    model, dims = found.get(MODEL_STAMP), found.get(DIMS_STAMP, 0)
    percent = found.get(PERCENT_STAMP, PERCENT_FULL)
    if not isinstance(dims, int) or not isinstance(percent, int):
        raise IndexCorrupt("the stamps of the vectors are unreadable")
    return VectorStamp(
        model=model if isinstance(model, str) else None,
        dims=dims,
        current=found.get(POLICY_STAMP) == PASSAGE_POLICY,
        percent=min(max(percent, 0), PERCENT_FULL),
    )


def read_vectors(connection: apsw.Connection, ids: NDArray[np.int64], dims: int) -> Found:
    """All passages of those of the documents that have all of theirs, in one read.

    Args:
        connection: inside a snapshot.
        ids: row ids (n,), each once.
        dims: of the file's model.

    Raises:
        IndexCorrupt: a vector has another length.
    """
    rows: list[Any] = connection.execute(
        "SELECT wanted.key, doc_vec.seq, doc_vec.vector FROM json_each(?) AS wanted"
        " JOIN doc_vec ON doc_vec.doc_id = wanted.value ORDER BY wanted.key, doc_vec.seq",
        (json.dumps(ids.tolist()),),
    ).fetchall()
    if not rows:
        return Found(np.empty((0, dims), dtype=np.int8), np.empty(0, dtype=np.int64))
    keys, places, packed = zip(*rows, strict=True)
    if any(len(vector) != dims for vector in packed):
        raise IndexCorrupt("a vector has another length than its model's")
    vectors = np.frombuffer(b"".join(packed), dtype=np.int8).reshape(-1, dims)
    owners, seqs = np.array(keys, dtype=np.int64), np.array(places, dtype=np.int64)
    whole = np.isin(owners, owners[seqs == 0]) & (seqs >= 0)
    return Found(vectors, owners) if whole.all() else Found(vectors[whole], owners[whole])


def read_carried(connection: apsw.Connection, kind: str, ref: str) -> Carried | None:
    """A document's vectors, to travel with it; None when it has not all of them."""
    stamp = read_stamp(connection)
    if stamp.model is None or not stamp.current:
        return None
    rows: list[Any] = connection.execute(
        "SELECT seq, begin, end, vector FROM doc_vec"
        " WHERE doc_id = (SELECT id FROM doc WHERE kind = ? AND ref = ?) ORDER BY seq",
        (kind, ref),
    ).fetchall()
    if not rows or rows[0][0] != 0:
        return None
    dropped = connection.execute(
        "SELECT coalesce(sum(chars), 0) FROM vec_dropped JOIN doc ON id = doc_id"
        " WHERE kind = ? AND ref = ?",
        (kind, ref),
    ).get
    found = tuple((begin, end, vector) for _, begin, end, vector in rows)
    return Carried(stamp.model, PASSAGE_POLICY, found, dropped)


def coverage(
    connection: apsw.Connection, documents: Mapping[str, int], now_ms: int
) -> dict[str, Any]:
    """How many documents have all their vectors, by kind, and what keeps the others.

    Args:
        connection: inside a snapshot.
        documents: how many there are, by kind.
        now_ms: ms since 1970.

    Returns:
        `{"model", "passage_policy", "percent", "complete", "pending", "quarantined", "coverage",
        "dropped_chars", "oldest_missing_ms", "by_kind": {KIND: {"documents", "complete",
        "coverage"}}, "reasons": {REASON: documents}}`; `oldest_missing_ms` is the age of the oldest
        vector that is missing and not given up, None when there is none.
    """
    stamp = read_stamp(connection)
    missing = dict(documents)
    quarantined, oldest, dropped = 0, None, 0
    reasons: dict[str, int] = {}
    if stamp.model is not None:
        rows: list[Any] = connection.execute(
            "SELECT kind, count(*) FROM vec_pending JOIN doc ON doc.id = doc_id GROUP BY kind"
        ).fetchall()
        missing = dict(rows)
        oldest = connection.execute(
            "SELECT min(since_ms) FROM vec_pending WHERE reason IS NULL"
        ).get
        dropped = connection.execute("SELECT coalesce(sum(chars), 0) FROM vec_dropped").get
        causes: list[Any] = connection.execute(
            "SELECT reason, count(*) AS n FROM vec_pending WHERE reason IS NOT NULL"
            " GROUP BY reason ORDER BY n DESC"
        ).fetchall()
        quarantined = sum(count for _, count in causes)
        reasons = dict(causes[:REASONS_SHOWN])
    by_kind = {
        kind: {
            "documents": count,
            "complete": count - missing.get(kind, 0),
            "coverage": share(count - missing.get(kind, 0), count),
        }
        for kind, count in documents.items()
    }
    total = sum(documents.values())
    complete = total - sum(missing.values())
    return {
        "model": stamp.model,
        "passage_policy": PASSAGE_POLICY if stamp.current else None,
        "percent": stamp.percent,
        "complete": complete,
        "pending": total - complete - quarantined,
        "quarantined": quarantined,
        "coverage": share(complete, total),
        "dropped_chars": dropped,
        "oldest_missing_ms": None if oldest is None else max(0, now_ms - oldest),
        "by_kind": by_kind,
        "reasons": reasons,
    }


def share(part: int, whole: int) -> float:
    """`part / whole`, to four places and never rounded up to 1; 1 of nothing."""
    if part == whole:
        return 1.0
    return min(round(part / whole, 4), 0.9999)
