"""Retrieval metrics of one ranked list, and percentiles. Pure.

Every function takes `gains`, the relevance grades of the answer in rank order (0 for a document
that was not judged relevant), and, where the ideal matters, `relevant`, the grades of all relevant
documents of the query.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

PERCENTS = (50, 90, 99)


def recall(gains: Sequence[int], relevant: Sequence[int], k: int) -> float:
    """Relevant documents among the first `k`, over the most that could stand there.

    The divisor is `min(len(relevant), k)`, so that a perfect page scores 1.0 even where more than
    `k` documents are relevant (the "capped recall" of BEIR, Thakur et al. 2021, section 4).
    """
    possible = min(len(relevant), k)
    return sum(gain > 0 for gain in gains[:k]) / possible if possible else 0.0


def reciprocal_rank(gains: Sequence[int], k: int) -> float:
    """1 / rank of the first relevant document, 0.0 when it is not among the first `k`.

    Its mean over queries is MRR@k (Voorhees, TREC-8 question answering track, 1999).
    """
    return next((1.0 / rank for rank, gain in enumerate(gains[:k], 1) if gain > 0), 0.0)


def ndcg(gains: Sequence[int], relevant: Sequence[int], k: int) -> float:
    """Normalised discounted cumulated gain of the first `k`, in [0, 1].

    Gains are `2**grade - 1`, the discount is `1 / log2(rank + 1)` (Burges et al. 2005, after
    Jarvelin and Kekalainen 2002); the ideal list is all relevant documents, best first.
    """
    ideal = _dcg(sorted(relevant, reverse=True), k)
    return _dcg(gains, k) / ideal if ideal else 0.0


def _dcg(gains: Sequence[int], k: int) -> float:
    return math.fsum(
        (2.0**gain - 1.0) / math.log2(rank + 1) for rank, gain in enumerate(gains[:k], 1)
    )


def top1(gains: Sequence[int]) -> float:
    """1.0 when the first document is relevant, else 0.0."""
    return 1.0 if gains and gains[0] > 0 else 0.0


def mean(values: Sequence[float]) -> float:
    """Arithmetic mean; 0.0 of nothing."""
    return math.fsum(values) / len(values) if values else 0.0


def percentiles(values: Sequence[float]) -> dict[str, float]:
    """p50, p90 and p99 of the values, with linear interpolation (Hyndman and Fan 1996, type 7).

    Returns:
        `{"p50": .., "p90": .., "p99": ..}`, all 0.0 when there are no values.
    """
    if not values:
        return {f"p{percent}": 0.0 for percent in PERCENTS}
    found = np.percentile(np.asarray(values, dtype=np.float64), PERCENTS)
    return {f"p{percent}": float(value) for percent, value in zip(PERCENTS, found, strict=True)}
