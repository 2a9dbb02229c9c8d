"""What rescoring one search costs: reading the candidates' vectors, cosines, the component."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import apsw
import numpy as np
from numpy.typing import NDArray

from golden import metrics
from service.index.vectors import read_vectors
from service.ranking import rescore

RUNS: Final = 300
SEED: Final = 7


def run(*, candidates: int, passages: int, dims: int) -> dict[str, Any]:
    """Rescore made-up candidates, many times.

    Returns:
        `{"candidates", "passages", "dims", "cpu_ms": {"cosines", "component", "read": {p50, p90,
        p99}}, "rescore_ms", "cosine_error"}`: CPU of the whole process; `rescore_ms` is the sum of
        the first two medians; `cosine_error` is the greatest difference from cosines of the same
        int8 vectors in float64.
    """
    rng = np.random.default_rng(SEED)
    vectors = rng.integers(-127, 128, (candidates * passages, dims), dtype=np.int8)
    query = rng.integers(-127, 128, dims, dtype=np.int8)
    owners = np.repeat(np.arange(candidates, dtype=np.int64), passages)
    ids = np.arange(1, candidates + 1, dtype=np.int64)
    keyword = rng.random(candidates)
    exact = np.zeros(candidates, dtype=np.bool_)
    cosine = rescore.cosines(query, vectors, owners, candidates)
    with _file(vectors, ids, passages) as connection:
        spent = _interleaved(
            {
                "cosines": lambda: rescore.cosines(query, vectors, owners, candidates),
                "component": lambda: rescore.component(cosine, keyword, exact, ids, rescore.WEIGHT),
                "read": lambda: read_vectors(connection, ids, dims),
            }
        )
    return {
        "candidates": candidates,
        "passages": passages,
        "dims": dims,
        "cpu_ms": spent,
        "rescore_ms": round(spent["cosines"]["p50"] + spent["component"]["p50"], 3),
        "cosine_error": _error(cosine, _reference(query, vectors, owners, candidates)),
    }


def _interleaved(works: dict[str, Callable[[], object]]) -> dict[str, dict[str, float]]:
    spent: dict[str, list[float]] = {name: [] for name in works}
    for number in range(RUNS + 1):
        for name, work in works.items():
            begun = time.process_time_ns()
            work()
            if number:  # the first one warms up
                spent[name].append((time.process_time_ns() - begun) / 1e6)
    return {name: metrics.percentiles(values) for name, values in spent.items()}


def _reference(
    query: NDArray[np.int8], vectors: NDArray[np.int8], owners: NDArray[np.int64], count: int
) -> NDArray[np.float64]:
    wide, wanted = vectors.astype(np.float64), query.astype(np.float64)
    each = wide @ wanted / (np.linalg.norm(wide, axis=1) * np.linalg.norm(wanted))
    return np.array([each[owners == owner].max() for owner in range(count)])


def _error(cosine: NDArray[np.float64], reference: NDArray[np.float64]) -> float:
    return float(np.abs(cosine - reference).max())


def _file(vectors: NDArray[np.int8], ids: NDArray[np.int64], passages: int) -> apsw.Connection:
    """The vectors in a table like a tenant's, in memory; entering it is a transaction."""
    connection = apsw.Connection(":memory:")
    connection.execute(
        "CREATE TABLE doc_vec(doc_id INTEGER, seq INTEGER, begin INTEGER, end INTEGER,"
        " vector BLOB, PRIMARY KEY (doc_id, seq)) WITHOUT ROWID"
    )
    connection.executemany(
        "INSERT INTO doc_vec VALUES (?, ?, 0, 0, ?)",
        [
            (int(ids[place // passages]), place % passages, vector.tobytes())
            for place, vector in enumerate(vectors)
        ],
    )
    return connection
