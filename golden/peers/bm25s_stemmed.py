"""bm25s (https://github.com/xhluca/bm25s): scores of all terms precomputed, English stemming."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from golden.answers import Found
from golden.lexicon import Document
from golden.peers import engine


class Bm25s:
    """The library's defaults (Lucene's BM25, English stop words) with Snowball's stemmer.

    Raises:
        MissingPackage: bm25s or PyStemmer.
    """

    def __init__(self, documents: Sequence[Document]) -> None:
        self._bm25s: Any = engine.package("bm25s")
        stemmer: Any = engine.package("Stemmer", name="PyStemmer")
        self._stemmer = stemmer.Stemmer("english")
        self._documents = documents
        self._index = self._bm25s.BM25()
        self._index.index(self._cut([engine.text(d) for d in documents]), show_progress=False)

    def search(self, query: str, limit: int) -> list[Found]:
        """See `Engine.search`."""
        tokens = self._cut([query])
        if not tokens[0]:
            return []
        numbers, scores = self._index.retrieve(
            tokens, k=min(limit, len(self._documents)), show_progress=False
        )
        best = zip(numbers[0].tolist(), scores[0].tolist(), strict=True)
        return engine.found(self._documents, [number for number, score in best if score > 0])

    def close(self) -> None:
        """See `Engine.close`."""
        self._index = None

    def _cut(self, texts: list[str]) -> list[list[str]]:
        tokens: list[list[str]] = self._bm25s.tokenize(
            texts, stopwords="en", stemmer=self._stemmer, return_ids=False, show_progress=False
        )
        return tokens
