from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ranking import scoring


def array(*values: float) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.array(values, dtype=np.float32)


EVEN = scoring.Lengths(array(1.0), array(1.0))


def test_idf_is_lucenes() -> None:
    assert scoring.idf(1, 10) == pytest.approx(math.log(1 + 9.5 / 1.5))
    assert scoring.idf(10, 10) > 0
    assert scoring.idf(12, 10) > 0, "an estimated frequency may pass the number of documents"


def test_saturation_by_hand() -> None:
    assert scoring.saturation(array(0), array(1), EVEN)[0] == pytest.approx(1 / 2.5)
    assert scoring.saturation(array(1), array(0), EVEN)[0] == pytest.approx(2.5 / 4.0)
    assert scoring.saturation(array(0), array(0), EVEN)[0] == 0


@given(st.integers(0, 3), st.integers(0, 300), st.integers(1, 10_000))
def test_more_occurrences_never_score_less_and_longer_texts_never_more(
    title: int, body: int, length: int
) -> None:
    def at(t: int, b: int, n: int) -> float:
        lengths = scoring.Lengths.of(array(4), array(n), 4, 200)
        return float(scoring.saturation(array(t), array(b), lengths)[0])

    assert 0 <= at(title, body, length) <= at(title, body + 1, length) < 1
    assert at(title, body, length) <= at(title + 1, body, length)
    assert at(title, body, length + 50) <= at(title, body, length)


def test_recency_halves_and_ignores_the_future() -> None:
    now = 10 * scoring.RECENCY_HALF_LIFE_MS
    times = np.array([now, now - scoring.RECENCY_HALF_LIFE_MS, now + 5_000]) // 1_000
    assert scoring.recency(times, now).tolist() == [1.0, 0.5, 1.0]


def test_the_total_is_a_weighted_sum() -> None:
    components = {"a": np.array([1.0, 0.0]), "b": np.array([0.5, 1.0])}
    assert scoring.total(components, {"a": 2.0, "b": 1.0}).tolist() == [2.5, 1.0]


def test_equal_scores_are_ordered_by_the_newer_row() -> None:
    order = scoring.order(np.array([0.5, 0.9, 0.5]), np.array([1, 2, 3], dtype=np.int64))
    assert order.tolist() == [1, 2, 0]
