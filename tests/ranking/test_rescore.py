from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from service.ranking import rescore
from service.ranking.rescore import CAPPED, FALL_MOST, NEUTRAL, POOL
from service.ranking.scoring import Floats, order

WEIGHT = 0.2

#: Scores that differ at all differ by more than a sum rounds away.
shares = st.integers(0, 10**6).map(lambda n: n / 10**6)
bands = st.floats(-1, 1)


def quantised(values: NDArray[np.float64]) -> NDArray[np.int8]:
    scale = np.abs(values).max(axis=-1, keepdims=True)
    found: NDArray[np.int8] = np.rint(values / scale * 127).astype(np.int8)
    return found


def rounding(dims: int) -> float:
    """Standard deviation of a cosine's error by int8 rounding, of normal vectors.

    The largest of `dims` normal values is about sqrt(2 ln 2 dims) of their deviation, and a step of
    max/127 has a uniform error of a step / sqrt(12).
    """
    step = np.sqrt(2 * np.log(2 * dims)) / 127
    return float(np.sqrt(2) * step / np.sqrt(12) / np.sqrt(dims))


def places(score: Floats, ids: NDArray[np.int64]) -> NDArray[np.int64]:
    """The place of each candidate."""
    found = np.empty(len(score), dtype=np.int64)
    found[order(score, ids)] = np.arange(len(score))
    return found


@st.composite
def pools(draw: st.DrawFn) -> tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.int64]]:
    """Cosines (some missing), keyword scores, exact ones, rising ids."""
    count = draw(st.integers(1, 40))
    cosine = draw(st.lists(bands | st.just(np.nan), min_size=count, max_size=count))
    keyword = draw(st.lists(shares, min_size=count, max_size=count))
    exact = draw(st.lists(st.integers(0, 5).map(lambda n: n == 0), min_size=count, max_size=count))
    return np.array(cosine), np.array(keyword), np.array(exact), np.arange(count) * 3 + 1


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.sampled_from([8, 384, 1_024]))
def test_cosines_equal_a_float64_reference_within_int8_rounding(
    seed: int, count: int, dims: int
) -> None:
    rng = np.random.default_rng(seed)
    query, real = rng.standard_normal(dims), rng.standard_normal((count * 3, dims))
    real += query  # related texts, as a pool's are
    owners = np.sort(rng.integers(0, count, count * 3))
    found = rescore.cosines(quantised(query), quantised(real), owners, count)
    ints, asked = quantised(real).astype(np.float64), quantised(query).astype(np.float64)
    exact = ints @ asked / (np.linalg.norm(ints, axis=1) * np.linalg.norm(asked))
    float_cosine = real @ query / (np.linalg.norm(real, axis=1) * np.linalg.norm(query))
    for place in range(count):
        own = owners == place
        if not own.any():
            assert np.isnan(found[place])
            continue
        assert found[place] == pytest.approx(exact[own].max(), abs=1e-6)
        # Rounding moves each value by half a step of max/127, so the error of a cosine has the
        # standard deviation below (two vectors' independent errors); five of it are allowed.
        assert found[place] == pytest.approx(float_cosine[own].max(), abs=5 * rounding(dims))


def test_a_vector_without_direction_is_missing() -> None:
    query = np.array([1, 2], dtype=np.int8)
    passages = np.array([[0, 0], [2, 4]], dtype=np.int8)
    found = rescore.cosines(query, passages, np.array([0, 2]), 3)
    assert np.isnan(found[:2]).all()
    assert found[2] == pytest.approx(1.0)
    assert np.isnan(rescore.cosines(query, passages[:0], np.array([], dtype=np.int64), 2)).all()


def test_a_narrow_pool_counts_for_less_than_a_wide_one() -> None:
    wide = rescore.closeness(np.array([0.5, 0.6, 0.8]))
    narrow = rescore.closeness(np.array([0.80, 0.81, 0.82]))
    assert wide[[0, 2]].tolist() == [0.0, 1.0]
    assert narrow[2] - narrow[0] == pytest.approx(0.02 / rescore.FULL_SPREAD)
    assert narrow[1] == pytest.approx(NEUTRAL)


@given(pools())
def test_the_component_is_a_share_and_missing_vectors_are_neutral(
    pool: tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.int64]],
) -> None:
    cosine, keyword, exact, ids = pool
    close = rescore.closeness(cosine)
    assert (close[np.isnan(cosine)] == NEUTRAL).all()
    component = rescore.component(cosine, keyword, exact, ids, WEIGHT)
    assert ((component >= 0) & (component <= 1)).all()
    assert (component >= close - 1e-12).all(), "the cap only lifts"


@given(pools())
def test_without_any_vector_the_order_stays(
    pool: tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.int64]],
) -> None:
    _, keyword, _, ids = pool
    nothing, none = np.full(len(ids), np.nan), np.zeros(len(ids), dtype=np.bool_)
    component = rescore.component(nothing, keyword, none, ids, WEIGHT)
    assert (component == NEUTRAL).all()


@given(pools())
def test_the_first_by_keyword_fall_by_a_few_places_at_most(
    pool: tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.int64]],
) -> None:
    cosine, keyword, exact, ids = pool
    component = rescore.component(cosine, keyword, exact, ids, WEIGHT)
    before, after = places(keyword, ids), places(keyword + WEIGHT * component, ids)
    first = before < CAPPED
    assert (after[first] <= before[first] + FALL_MOST).all()


def test_one_that_is_lifted_does_not_push_an_equal_one_beyond_its_place() -> None:
    without = {0, 1, 3, 4, 5, 6, 10, 11, 12, 13, 15, 16, 18, 21}
    cosine = np.array([np.nan if at in without else 0.0 for at in range(24)] + [1.0])
    exact = np.array([at < 5 or at > 18 for at in range(25)])
    keyword, ids = np.zeros(25), np.arange(25)
    component = rescore.component(cosine, keyword, exact, ids, WEIGHT)
    before, after = places(keyword, ids), places(keyword + WEIGHT * component, ids)
    assert (after[before < CAPPED] <= before[before < CAPPED] + FALL_MOST).all()


@given(pools())
def test_documents_that_hold_a_typed_identifier_never_swap_nor_fall_behind_others(
    pool: tuple[Floats, Floats, NDArray[np.bool_], NDArray[np.int64]],
) -> None:
    cosine, keyword, exact, ids = pool
    component = rescore.component(cosine, keyword, exact, ids, WEIGHT)
    before, after = places(keyword, ids), places(keyword + WEIGHT * component, ids)
    assert (after[exact] <= before[exact]).all()
    assert (np.argsort(before[exact]) == np.argsort(after[exact])).all()


def test_two_identifiers_one_digit_apart_do_not_swap_for_any_vector() -> None:
    keyword, ids = np.array([0.9, 0.895]), np.array([1, 2])
    cosine = np.array([0.1, 0.9])  # the lookalike is nearer
    for exact in ([True, False], [True, True]):
        component = rescore.component(cosine, keyword, np.array(exact), ids, WEIGHT)
        assert places(keyword + WEIGHT * component, ids).tolist() == [0, 1]


def test_a_tenant_that_gives_no_weight_gets_the_keyword_order() -> None:
    keyword, ids = np.array([0.9, 0.8]), np.array([1, 2])
    component = rescore.component(
        np.array([0.1, 0.9]), keyword, np.zeros(2, dtype=np.bool_), ids, 0.0
    )
    assert places(keyword + 0.0 * component, ids).tolist() == [0, 1]


def test_the_better_of_two_equal_candidates_comes_first() -> None:
    keyword, ids = np.full(POOL, 0.4), np.arange(POOL)
    cosine = np.linspace(0.6, 0.9, POOL)[::-1].copy()
    component = rescore.component(cosine, keyword, np.zeros(POOL, dtype=np.bool_), ids, WEIGHT)
    # Equal by keyword, the newest ten are held up a little by the cap; the nearest leads.
    leading = order(keyword + WEIGHT * component, ids)
    assert leading[0] == 0
