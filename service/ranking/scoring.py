"""The score: a weighted sum of components, each in [0, 1], each shown on the hit.

Never multiplicative: a factor near zero would hide evidence that the other components hold.

| component | what it says |
| --- | --- |
| `strict` | BM25 of what was typed, in documents that hold all of it |
| `relaxed` | BM25 of what was typed and of what may stand for it |
| `coverage` | rarity-weighted share of the query found anywhere in the document |
| `title` | the same share, found in the title |
| `density` | how much of the title the query is |
| `phrase` | 1 where the whole query stands as one phrase |
| `identifier` | 1 for an identifier of the document, less for one mentioned or begun |
| `ref` | 1 where the query is the document's own ref, less among other words |
| `recency` | halves every `RECENCY_HALF_LIFE_MS` |

BM25 here is the usual saturation (Robertson and Zaragoza 2009, sections 3.1 and 3.6) over two
weighted fields, divided by its own upper bound for the query, so 1 is never reached by length.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Saturation, and how far a field's length counts; the title's occurrences weigh more.
K1 = 1.5
TITLE_B = 0.6
BODY_B = 0.75
TITLE_WEIGHT = 2.5

RECENCY_HALF_LIFE_MS = 90 * 86_400_000

#: What each component weighs; `golden` decides.
WEIGHTS: Mapping[str, float] = {
    "strict": 0.45,
    "relaxed": 0.42,
    "coverage": 0.22,
    "title": 0.05,
    "density": 0.10,
    "phrase": 0.20,
    "identifier": 0.40,
    "ref": 1.00,
    "recency": 0.01,
}


def idf(frequency: int, docs: int) -> float:
    """Inverse document frequency that never goes below zero (Lucene's form of BM25)."""
    return math.log(1 + (max(docs - frequency, 0) + 0.5) / (frequency + 0.5))


@dataclasses.dataclass(frozen=True, slots=True)
class Lengths:
    """How long fields are compared with the index's average; float32 (n,) each."""

    title: NDArray[np.float32]
    body: NDArray[np.float32]

    @classmethod
    def of(
        cls,
        title: NDArray[np.float32],
        body: NDArray[np.float32],
        title_mean: float,
        body_mean: float,
    ) -> Lengths:
        """BM25's length normalisation, one divisor a document and field."""
        return cls(
            1 - TITLE_B + TITLE_B * title / max(title_mean, 1.0),
            1 - BODY_B + BODY_B * body / max(body_mean, 1.0),
        )


def saturation(
    title: NDArray[np.float32], body: NDArray[np.float32], lengths: Lengths
) -> NDArray[np.float32]:
    """BM25's term frequency part over both fields, in [0, 1)."""
    weighted = TITLE_WEIGHT * title / lengths.title + body / lengths.body
    return np.asarray(weighted / (weighted + K1), dtype=np.float32)


def recency(updated_s: NDArray[np.int64], now_ms: int) -> Floats:
    """1 for now, one half a half-life ago; times in the future count as now."""
    age = np.maximum(now_ms - 1_000 * updated_s, 0) / RECENCY_HALF_LIFE_MS
    return np.asarray(np.exp2(-age), dtype=np.float64)


def total(components: Mapping[str, Floats], weights: Mapping[str, float] = WEIGHTS) -> Floats:
    """The additive score (n,)."""
    terms = [weights[name] * values for name, values in components.items()]
    return np.asarray(np.sum(terms, axis=0), dtype=np.float64)


def order(score: Floats, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places by falling score; equal scores by the newer row, so the order is total."""
    return np.lexsort((-ids, -score))
