"""What vectors add: judged sets by keyword alone, then with the best candidates rescored.

Embedding everything would take hours on a CPU, so a fixed sample of queries is asked and only the
best keyword candidates of each are embedded; both orders are of the same candidates. What was
embedded is kept on disk by content and model, so a second run embeds nothing. The service's own
`ranking/rescore.py` and passage policy are used, with fewer passages a document.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from golden import builds, runner
from golden.answers import Answer, Found
from golden.judged import JudgedSet, Query
from service.index import passages
from service.index.document import Document
from service.index.reader import IndexReader
from service.ranking import rescore
from service.ranking.scoring import order
from service.search.engine import search
from service.search.request import SearchRequest
from service.search.rescoring import Pool, Rescored
from service.semantic.sidecar import Sidecar
from service.text import names_only, parse_query

QUERIES = 60
CANDIDATES = 30
PASSAGES = 2
"""Of a document, the digest included."""
TIMEOUT_MS = 120_000
_KEY_BYTES = 16


class VectorCache:
    """Vectors by content, in one file a model; lines of equal length, appended as they are made.

    Args:
        folder: where the file lies.
        model: its id.
        dims: of a vector.
    """

    def __init__(self, folder: Path, model: str, dims: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = folder / (re.sub(r"[^\w.@-]", "_", model) + ".vectors")
        size = _KEY_BYTES + dims
        raw = path.read_bytes() if path.is_file() else b""
        whole = len(raw) - len(raw) % size  # a line that was cut short is made again
        self._known = {
            raw[at : at + _KEY_BYTES]: raw[at + _KEY_BYTES : at + size]
            for at in range(0, whole, size)
        }
        self._file: BinaryIO = path.open("r+b" if raw else "w+b")
        self._file.seek(whole)
        self._file.truncate()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def of(
        self, role: str, texts: Sequence[str], make: Callable[[list[str]], list[bytes]]
    ) -> list[bytes]:
        """A vector for each text, made where it is not known.

        Args:
            role: `query` or `passage`: models embed them differently.
            texts: what is embedded.
            make: vectors of texts that are not known.
        """
        keys = [
            hashlib.blake2b(f"{role}\0{text}".encode(), digest_size=_KEY_BYTES).digest()
            for text in texts
        ]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._known}
        for key, vector in zip(missing, make(list(missing.values())), strict=True):
            self._known[key] = vector
            self._file.write(key + vector)
        if missing:
            self._file.flush()
        return [self._known[key] for key in keys]


class Embedder:
    """A sidecar with its cache.

    Args:
        address: `host:port`.
        folder: where vectors are kept.

    Raises:
        SidecarError: it does not answer.
    """

    def __init__(self, address: str, folder: Path) -> None:
        self._sidecar = Sidecar(address, timeout_ms=TIMEOUT_MS)
        info = self._sidecar.info()
        self.model, self.dims = info.model, info.dims
        self._texts_most = min(16, info.texts_most)
        self._cache = VectorCache(folder, info.model, info.dims)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._cache.__exit__()
        self._sidecar.close()

    def query(self, text: str) -> bytes:
        """A query's vector."""
        return self._cache.of("query", [text], self._queries)[0]

    def documents(self, documents: Sequence[Document], most: int) -> list[list[bytes]]:
        """The vectors of each document's first passages."""
        texts = [passages.source(document)[: passages.SOURCE_CHARS] for document in documents]
        spans = self._sidecar.split(
            texts, model=self.model, tokens_most=passages.PASSAGE_TOKENS, passages_most=most
        )
        found = []
        for text, places in zip(texts, spans, strict=True):
            cut = passages.cut(text, places).passages
            found.append(self._cache.of("passage", [p.text for p in cut], self._passages))
        return found

    def _queries(self, texts: list[str]) -> list[bytes]:
        return [self._sidecar.embed_query(text, model=self.model) for text in texts]

    def _passages(self, texts: list[str]) -> list[bytes]:
        found: list[bytes] = []
        for at in range(0, len(texts), self._texts_most):
            found += self._sidecar.embed(texts[at : at + self._texts_most], model=self.model)
        return found


class Best:
    """A `Rescorer` of a query's best keyword candidates.

    Args:
        embedder: makes vectors.
        reader: the corpus, inside a snapshot.
        query: what is asked, without filters.
        most: candidates.
        passages_most: passages of each.
    """

    def __init__(
        self, embedder: Embedder, reader: IndexReader, query: str, most: int, passages_most: int
    ) -> None:
        self._embedder = embedder
        self._reader = reader
        self._query = query
        self._most = most
        self._passages_most = passages_most

    def __call__(self, pool: Pool) -> Rescored | None:
        """See `service.search.rescoring.Rescorer`."""
        if not self._query.split() or names_only(self._query):
            return None
        best = np.sort(order(pool.keyword, pool.ids)[: self._most])
        vectors = self._embedder.documents(
            [self._document(row) for row in pool.ids[best].tolist()], self._passages_most
        )
        owners = np.repeat(np.arange(len(best)), [len(each) for each in vectors])
        packed = b"".join(vector for each in vectors for vector in each)
        matrix = np.frombuffer(packed, dtype=np.int8).reshape(-1, self._embedder.dims)
        query = np.frombuffer(self._embedder.query(self._query), dtype=np.int8)
        cosine = np.full(len(pool.ids), np.nan)
        cosine[best] = rescore.cosines(query, matrix, owners, len(best))
        component = rescore.component(cosine, pool.keyword, pool.exact, pool.ids, rescore.WEIGHT)
        return Rescored(component, rescore.WEIGHT)

    def decline(self) -> None:
        """See `service.search.rescoring.Rescorer`."""

    def _document(self, row: int) -> Document:
        found: Any = self._reader.connection.execute(
            "SELECT kind, ref, title, summary, note, meta FROM doc WHERE id = ?", (row,)
        ).fetchone()
        kind, ref, title, summary, note, meta = found
        return Document(kind=kind, ref=ref, title=title, summary=summary, note=note, meta=meta)


def sample(queries: Sequence[Query], most: int = QUERIES) -> list[Query]:
    """Queries at even distances, so every class has its share; the same in every run."""
    if len(queries) <= most:
        return list(queries)
    return [queries[place * len(queries) // most] for place in range(most)]


def run(
    judged_set: JudgedSet,
    embedder: Embedder,
    *,
    queries: int = QUERIES,
    candidates: int = CANDIDATES,
    passages_most: int = PASSAGES,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Ask a sample of a set twice.

    Args:
        judged_set: the set.
        embedder: makes vectors.
        queries: most queries.
        candidates: best keyword candidates that are embedded for each.
        passages_most: passages of each document.
        progress: called with 1 after each query.

    Returns:
        `{"n", "ndcg10_keyword", "ndcg10_rescored", "recall10_keyword", "recall10_rescored",
        "top1_keyword", "top1_rescored", "classes": {CLASS: {"n", "ndcg10_keyword",
        "ndcg10_rescored"}}}`; classes of at least two queries.

    Raises:
        MemlaneError: a search failed.
        SidecarError: the sidecar failed.
    """
    reader = IndexReader(builds.index_of(judged_set.corpus))
    before, after = [], []
    for query in sample(judged_set.queries, queries):
        request = SearchRequest(q=query.text, limit=runner.DEPTH)
        grades = judged_set.grades[query.id]
        text = parse_query(query.text).text
        with reader.snapshot():
            best = Best(embedder, reader, text, candidates, passages_most)
            before.append(runner.outcome(query, _answer(search(reader, request)), grades))
            after.append(runner.outcome(query, _answer(search(reader, request, best)), grades))
        if progress is not None:
            progress(1)
    reader.close()
    first, second = runner.report(before), runner.report(after)
    return {
        "n": first["n"],
        **{
            f"{measure}_{way}": found[measure]
            for measure in ("ndcg10", "recall10", "top1")
            for way, found in (("keyword", first), ("rescored", second))
        },
        "classes": {
            name: {
                "n": row["n"],
                "ndcg10_keyword": row["ndcg10"],
                "ndcg10_rescored": second["classes"][name]["ndcg10"],
            }
            for name, row in first["classes"].items()
            if row["n"] > 1
        },
    }


def vector_folder() -> Path:
    """Where vectors are kept: beside the builds, but never dropped with them."""
    named = os.environ.get("MEMLANE_GOLDEN_VECTORS")
    return (
        Path(named)
        if named
        else builds.cache_folder().with_name(builds.cache_folder().name + "-vectors")
    )


def _answer(result: Any) -> Answer:
    return Answer([Found(h.kind, h.ref, h.title, h.score, h.components) for h in result.hits])
