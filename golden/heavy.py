"""Queries made to be expensive: very long ones, and the most common words of a corpus."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from golden import lexicon, metrics
from golden.answers import WARMING, Backend
from golden.lexicon import Document

QUERIES = 50
"""Of each load."""
LONG_WORDS = 200
PASTE_WORDS = 30
PASTE_FROM = 100
"""A paste's words are among this many of the most common."""
SEED = 4
LIMIT = 10


def loads(documents: Sequence[Document], *, queries: int = QUERIES) -> dict[str, list[str]]:
    """The hostile queries of a corpus; the same corpus gives the same ones.

    Returns:
        `words-200`: 200 words each, half drawn as often as they are written and half from the
        vocabulary evenly; `common-1`: one of the words that most documents hold;
        `common-30`: 30 of those in one query.
    """
    counts: Counter[str] = Counter()
    for document in documents:
        counts.update(set(map(str.casefold, lexicon.words(f"{document.title}\n{document.body}"))))
    ranked = sorted(counts, key=lambda word: (-counts[word], word))
    rng = random.Random(SEED)  # noqa: S311  (chance, not secrets)
    weights = [counts[word] for word in ranked]
    half = LONG_WORDS // 2
    common = ranked[:PASTE_FROM]
    return {
        f"words-{LONG_WORDS}": [
            " ".join(rng.choices(ranked, weights, k=half) + rng.choices(ranked, k=half))
            for _ in range(queries)
        ],
        "common-1": ranked[:queries],
        f"common-{PASTE_WORDS}": [
            " ".join(rng.sample(common, min(PASTE_WORDS, len(common)))) for _ in range(queries)
        ],
    }


def run(backend: Backend, made: dict[str, list[str]]) -> dict[str, Any]:
    """Search every load's queries, interleaved.

    Returns:
        `{"loads": {LOAD: {"queries", "cpu_ms": {p50, p90, p99}}}}`.

    Raises:
        MemlaneError: a search failed.
    """
    cpu_ms: dict[str, list[float]] = {name: [] for name in made}
    backend.search(WARMING, LIMIT)
    for number in range(max(map(len, made.values()))):
        for name, queries in made.items():
            if number < len(queries):
                cpu_ms[name].append(backend.search(queries[number], LIMIT).cpu_ms or 0.0)
    return {
        "loads": {
            name: {"queries": len(spent), "cpu_ms": metrics.percentiles(spent)}
            for name, spent in cpu_ms.items()
        }
    }
