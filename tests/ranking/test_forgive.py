from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_slips_at_the_start_are_each_kind_once() -> None:
    edits = forgive.one_edit_at_start("cat")
    assert {"at", "ct", "act", "cta", "bat", "cut", "scat", "coat"} <= edits
    assert not {"cat", "car", "cats", "dog"} & edits
    # 2 deletions, 2 swaps, 2 * 25 changes, 2 * 26 additions less a doubled letter each
    assert len(edits) == 2 + 2 + 2 * 25 + 2 * 26 - 1


def test_near_words_are_those_at_that_distance() -> None:
    known = ["gateway", "getaway", "gateways", "gatewax"]
    assert forgive.near("gatewya", known, 1) == ["gateway"]
    assert forgive.near("gatway", ["gateway", "gataway", "getting"], 1) == ["gateway", "gataway"]
    assert forgive.near("gatway", ["gateways"], 2) == ["gateways"]


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


@pytest.mark.parametrize(
    ("word", "relative", "other"),
    [
        ("regulation", "regulate", "region"),
        ("mutations", "mutated", "mutual"),
        ("active", "activity", "actor"),
        ("inhibitor", "inhibiting", "inherit"),
        ("happiness", "happily", "happen"),
    ],
)
def test_words_of_one_family_are_relatives(word: str, relative: str, other: str) -> None:
    assert forgive.relatives(word, [other, word, relative]) == [relative]
    assert relative.startswith(forgive.family_head(word))


@given(st.text(st.sampled_from("abceginorsty"), min_size=1, max_size=12))
def test_a_word_is_a_relative_of_all_its_relatives(word: str) -> None:
    ends = ["ation", "ed", "ness", "y"]
    others = [stem + end for stem in forgive.stems(word) for end in ends]
    for other in forgive.relatives(word, others):
        assert word in forgive.relatives(other, [word])
    assert forgive.stems("cat") == set()


def test_only_korean_nouns_of_one_syllable_take_other_particles() -> None:
    assert forgive.with_particles("개가")[:3] == ["개", "개은", "개는"]
    assert set(forgive.with_particles("개")) == {
        "개" + other for other in "은는이가을를의에도로와과만"
    }
    assert "개가" not in forgive.with_particles("개가")
    for word in ("개념", "기타를", "a가나", ""):
        assert forgive.with_particles(word) == []
