"""The figures every ranking change is held to, against values worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import metrics

GRADES = st.lists(st.integers(0, 4), max_size=12)


def test_recall_counts_found_over_what_could_be_found() -> None:
    assert metrics.recall([1, 0, 1, 0], [1, 1, 1], 10) == pytest.approx(2 / 3)


def test_recall_is_capped_where_more_is_relevant_than_fits() -> None:
    assert metrics.recall([1] * 10, [1] * 25, 10) == 1.0


def test_recall_looks_no_deeper_than_k() -> None:
    assert metrics.recall([0, 0, 1], [1], 2) == 0.0


def test_reciprocal_rank_is_of_the_first_relevant_document() -> None:
    assert metrics.reciprocal_rank([0, 0, 2, 1], 10) == pytest.approx(1 / 3)
    assert metrics.reciprocal_rank([0] * 10 + [1], 10) == 0.0


def test_ndcg_of_a_graded_list_worked_out_by_hand() -> None:
    # grades 1, 0, 2 found; ideal 2, 1: gains 2**grade - 1, discounts 1, 1/log2(3), 1/2
    dcg = 1 + 0 + 3 / 2
    ideal = 3 + 1 / math.log2(3)
    assert metrics.ndcg([1, 0, 2], [2, 1], 10) == pytest.approx(dcg / ideal)
    assert metrics.ndcg([1, 0, 2], [2, 1], 10) == pytest.approx(0.688529, abs=1e-6)


def test_ndcg_of_one_relevant_document_at_rank_two() -> None:
    assert metrics.ndcg([0, 1], [1], 10) == pytest.approx(0.630930, abs=1e-6)


def test_nothing_relevant_scores_nothing() -> None:
    assert metrics.ndcg([], [], 10) == 0.0
    assert metrics.recall([], [], 10) == 0.0
    assert metrics.top1([]) == 0.0


def test_top1_takes_any_relevant_grade() -> None:
    assert metrics.top1([2, 0]) == 1.0
    assert metrics.top1([0, 2]) == 0.0


def test_percentiles_interpolate_between_neighbours() -> None:
    assert metrics.percentiles([4.0, 1.0, 3.0, 2.0]) == pytest.approx(
        {"p50": 2.5, "p90": 3.7, "p99": 3.97}
    )
    assert metrics.percentiles([]) == {"p50": 0.0, "p90": 0.0, "p99": 0.0}


@given(GRADES)
def test_the_ideal_order_scores_one_and_no_order_scores_more(grades: list[int]) -> None:
    best = sorted(grades, reverse=True)
    relevant = [grade for grade in grades if grade > 0]
    assert metrics.ndcg(best, relevant, 10) == pytest.approx(1.0 if relevant else 0.0)
    assert metrics.ndcg(grades, relevant, 10) <= 1.0 + 1e-12


@given(GRADES, st.integers(0, 10))
def test_moving_a_relevant_document_up_never_costs(grades: list[int], at: int) -> None:
    relevant = [grade for grade in grades if grade > 0]
    if at + 1 >= len(grades) or grades[at] >= grades[at + 1]:
        return
    better = [*grades[:at], grades[at + 1], grades[at], *grades[at + 2 :]]
    assert metrics.ndcg(better, relevant, 10) >= metrics.ndcg(grades, relevant, 10)
    assert metrics.reciprocal_rank(better, 10) >= metrics.reciprocal_rank(grades, 10)
