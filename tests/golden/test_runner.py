"""A judged run over a backend that answers from a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import pytest

from golden.answers import Answer, Found
from golden.judged import JudgedSet, Query
from golden.runner import report, run_set


class Table:
    """Answers each query with the refs written down for it."""

    def __init__(self, answers: Mapping[str, Sequence[str]]) -> None:
        self.answers = answers

    def search(
        self,
        query: str,
        limit: int,
        *,
        kinds: Sequence[str] = (),
        updated_after_ms: int | None = None,
    ) -> Answer:
        named = (name.split(":") for name in self.answers[query][:limit])
        hits = [Found(kind, ref) for kind, ref in named]
        return Answer(hits, wall_ms=2.0, cpu_ms=1.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


SET = JudgedSet(
    "small",
    Path("small.corpus.ndjson"),
    (Query("typo-1", "one"), Query("typo-2", "two"), Query("join-1", "three")),
    {"typo-1": {"a": 1}, "typo-2": {"note:b": 1, "c": 1}, "join-1": {"d": 1}},
)
BACKEND = Table(
    {"one": ["task:a"], "two": ["task:x", "note:b", "note:b"], "three": ["task:y"]},
)


def test_figures_stand_by_set_and_by_class() -> None:
    found = report(run_set(BACKEND, SET))
    assert (found["n"], found["recall10"], found["top1"]) == (3, 0.5, 0.3333)
    assert found["classes"]["typo"] == {
        "n": 2,
        "recall10": 0.75,
        "mrr10": 0.75,
        "ndcg10": pytest.approx((1 + 0.38685) / 2, abs=1e-4),
        "top1": 0.5,
    }
    assert found["classes"]["join"]["recall10"] == 0.0
    assert found["cpu_ms"] == {"p50": 1.0, "p90": 1.0, "p99": 1.0}


def test_a_document_that_comes_twice_counts_once() -> None:
    outcome = run_set(BACKEND, SET)[1]
    assert outcome.recall10 == 0.5


def test_first_takes_the_files_first_queries_and_progress_hears_of_each() -> None:
    heard: list[int] = []
    outcomes = run_set(BACKEND, SET, first=2, progress=heard.append)
    assert [o.query.id for o in outcomes] == ["typo-1", "typo-2"]
    assert heard == [1, 1]


def test_a_server_has_no_cpu_figure() -> None:
    class Far(Table):
        def search(
            self,
            query: str,
            limit: int,
            *,
            kinds: Sequence[str] = (),
            updated_after_ms: int | None = None,
        ) -> Answer:
            return Answer(super().search(query, limit).hits, wall_ms=3.0)

    assert report(run_set(Far(BACKEND.answers), SET))["cpu_ms"] is None
