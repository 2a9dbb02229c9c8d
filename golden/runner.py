"""Judged runs: every query of a set through a backend, scored per class."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from golden import metrics
from golden.answers import Answer, Backend
from golden.judged import JudgedSet, Query

DEPTH = 10
"""k of recall@k, MRR@k and nDCG@k."""
MEASURES = ("recall10", "mrr10", "ndcg10", "top1")
DECIMALS = 4


@dataclass(frozen=True, slots=True)
class Outcome:
    """One query's figures."""

    query: Query
    recall10: float
    mrr10: float
    ndcg10: float
    top1: float
    wall_ms: float
    cpu_ms: float | None


def run_set(
    backend: Backend,
    judged: JudgedSet,
    *,
    first: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> list[Outcome]:
    """Search every query of a set once, in the file's order.

    Args:
        backend: what is searched; the set's corpus must be in it.
        judged: the set.
        first: only the first so many queries; all by default.
        progress: called with 1 after each query.

    Raises:
        MemlaneError: a search failed; a run with holes would not compare with any other.
    """
    outcomes = []
    for query in judged.queries[:first]:
        answer = backend.search(query.text, DEPTH)
        outcomes.append(outcome(query, answer, judged.grades[query.id]))
        if progress is not None:
            progress(1)
    return outcomes


def outcome(query: Query, answer: Answer, grades: Mapping[str, int]) -> Outcome:
    """One answer's figures.

    Args:
        query: what was asked.
        answer: what came.
        grades: document (ref or `kind:ref`) -> relevance, of the relevant ones.
    """
    gains = _gains(answer, grades)
    relevant = list(grades.values())
    return Outcome(
        query=query,
        recall10=metrics.recall(gains, relevant, DEPTH),
        mrr10=metrics.reciprocal_rank(gains, DEPTH),
        ndcg10=metrics.ndcg(gains, relevant, DEPTH),
        top1=metrics.top1(gains),
        wall_ms=answer.wall_ms,
        cpu_ms=answer.cpu_ms,
    )


def _gains(answer: Answer, grades: Mapping[str, int]) -> list[int]:
    """Grades in rank order; a document that comes twice gains once."""
    seen: set[str] = set()
    gains = []
    for hit in answer.hits:
        judged_as = hit.ref if hit.ref in grades else hit.name
        gains.append(0 if judged_as in seen else grades.get(judged_as, 0))
        seen.add(judged_as)
    return gains


def report(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Means over a set's queries and over each class.

    Returns:
        `{"n", "recall10", "mrr10", "ndcg10", "top1", "wall_ms": {p50, p90, p99}, "cpu_ms": the same
        or None, "classes": {CLASS: {"n", "recall10", "mrr10", "ndcg10", "top1"}}}`.
    """
    families: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        families.setdefault(outcome.query.family, []).append(outcome)
    cpu_ms = [o.cpu_ms for o in outcomes if o.cpu_ms is not None]
    return {
        **means(outcomes),
        "wall_ms": metrics.percentiles([o.wall_ms for o in outcomes]),
        "cpu_ms": metrics.percentiles(cpu_ms) if cpu_ms else None,
        "classes": {name: means(families[name]) for name in sorted(families)},
    }


def means(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """`{"n", "recall10", "mrr10", "ndcg10", "top1"}` over outcomes."""
    rounded = {
        measure: round(metrics.mean([getattr(o, measure) for o in outcomes]), DECIMALS)
        for measure in MEASURES
    }
    return {"n": len(outcomes), **rounded}
