from __future__ import annotations

import pytest

from service.ranking import forgive


@pytest.mark.parametrize(
    ("word", "form"),
    [
        ("retries", "retry"),
        ("retry", "retries"),
        ("running", "run"),
        ("cache", "caching"),
        ("caching", "cache"),
        ("test", "tested"),
        ("boxes", "box"),
        ("deployed", "deploying"),
    ],
)
def test_english_inflections_meet(word: str, form: str) -> None:
    assert form in forgive.inflections(word)
    assert word not in forgive.inflections(word)


def test_one_edit_is_each_kind_of_slip_once() -> None:
    edits = forgive.one_edit("cat")
    assert {"at", "act", "cut", "cart", "cats"} <= edits
    assert "cat" not in edits
    assert "dog" not in edits
    # 3 deletions, 2 swaps, 3 * 25 changes, 4 * 26 additions of which 3 doubled letters coincide
    assert len(edits) == 3 + 2 + 3 * 25 + 4 * 26 - 3


def test_numbers_and_identifiers_are_not_bent() -> None:
    assert [w for w in ("2001", "cr-29", "v2", "重试", "café") if forgive.bendable(w)] == []
    assert forgive.bendable("gateway")


def test_splits_leave_no_single_letters() -> None:
    assert forgive.splits("dockhub") == [
        ("do", "ckhub"),
        ("doc", "khub"),
        ("dock", "hub"),
        ("dockh", "ub"),
    ]
    assert forgive.splits("abc") == []


@pytest.mark.parametrize(
    ("left", "right", "edits"),
    [("abc", "abc", 0), ("abc", "acb", 1), ("tempature", "temperature", 2), ("abcd", "efgh", 3)],
)
def test_distance_counts_edits_up_to_a_bound(left: str, right: str, edits: int) -> None:
    assert forgive.distance(left, right, 2) == edits
    assert forgive.distance(right, left, 2) == edits
