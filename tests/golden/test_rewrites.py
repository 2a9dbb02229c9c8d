"""Each rewrite changes text as its name says, and the same seed gives the same text."""

from __future__ import annotations

import random
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden import rewrites

WORDS = st.text("abcdefghijklmnopqrstuvwxyz", min_size=8, max_size=16)
SEEDS = st.integers(0, 10_000)


def distance(a: str, b: str) -> int:
    """Levenshtein distance."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


@given(WORDS, SEEDS, st.sampled_from([1, 2]))
def test_a_misspelling_is_at_most_so_many_edits_away_and_keeps_the_first_letter(
    word: str, seed: int, edits: int
) -> None:
    wrong = rewrites.misspell(word, random.Random(seed), edits=edits)
    assert wrong is not None
    assert distance(word, wrong) <= edits
    assert wrong[0] == word[0]


@given(WORDS, SEEDS)
def test_one_edit_always_changes_the_word(word: str, seed: int) -> None:
    wrong = rewrites.misspell(word, random.Random(seed), edits=1)
    assert wrong is not None
    assert distance(word, wrong) == 1


@given(WORDS, SEEDS)
def test_chance_is_the_seeds(word: str, seed: int) -> None:
    def once() -> list[str | None]:
        rng = random.Random(seed)
        return [
            rewrites.misspell(word, rng, edits=2),
            rewrites.transpose(word, rng),
            rewrites.inflect(word, rng),
            rewrites.question(word, rng),
            rewrites.chatty(word, rng),
        ]

    assert once() == once()


@given(WORDS, SEEDS)
def test_a_transposition_swaps_two_neighbours(word: str, seed: int) -> None:
    swapped = rewrites.transpose(word, random.Random(seed))
    if swapped is None:
        assert len(set(word[1:])) == 1
        return
    different = [i for i in range(len(word)) if word[i] != swapped[i]]
    assert different[1] == different[0] + 1
    assert sorted(swapped) == sorted(word)


def test_too_short_for_two_slips() -> None:
    assert rewrites.misspell("ab", random.Random(1), edits=2) is None


def test_prefix_and_unfinished_keep_the_head() -> None:
    assert rewrites.prefix("temperature") == "tempera"
    assert rewrites.prefix("ramp") is None
    cut = rewrites.unfinished("temperature", random.Random(1))
    assert cut is not None
    assert "temperature".startswith(cut)
    assert len(cut) >= len("temperature") - 3


@pytest.mark.parametrize(
    ("word", "form"),
    [("windows", "window"), ("parked", "park"), ("scanning", "scann"), ("queries", "query")],
)
def test_an_ending_is_taken_off(word: str, form: str) -> None:
    assert rewrites.inflect(word, random.Random(1)) == form


def test_an_ending_is_put_on() -> None:
    assert rewrites.inflect("depot", random.Random(1)) in ("depots", "depoted", "depoting")
    assert rewrites.inflect("delivery", random.Random(1)) == "deliveries"
    assert rewrites.inflect("queue", random.Random(1)) in ("queues", "queued", "queuing")


def test_adverbs_and_double_s_have_no_other_form() -> None:
    assert rewrites.inflect("exactly", random.Random(1)) is None
    assert rewrites.inflect("address", random.Random(1)) is None


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        ("getHTTPResponseCode", ["get", "HTTP", "Response", "Code"]),
        ("parcel_scan_events", ["parcel", "scan", "events"]),
        ("solver.max-detour", ["solver", "max", "detour"]),
        ("plain", ["plain"]),
    ],
)
def test_humps(word: str, parts: list[str]) -> None:
    assert rewrites.humps(word) == parts


@given(st.text())
def test_full_width_folds_back(text: str) -> None:
    nfkc = unicodedata.normalize("NFKC", text)
    assert unicodedata.normalize("NFKC", rewrites.full_width(text)) == nfkc


def test_full_width_leaves_blanks_and_other_scripts() -> None:
    assert rewrites.full_width("HBL-7 仓库") == "ＨＢＬ－７ 仓库"


def test_case_and_version_separators() -> None:
    assert rewrites.other_case("DepotSync v2") == "DEPOTSYNC V2"
    assert rewrites.other_case("HBL-1") == "hbl-1"
    forms = {rewrites.other_separators("4.12.7", random.Random(seed)) for seed in range(40)}
    assert forms == {"4-12-7", "4_12_7", "4 12 7", "v4.12.7"}


def test_reorder_gives_another_order_of_the_same_words() -> None:
    words = ["depot", "window", "solver"]
    other = rewrites.reorder(words, random.Random(3))
    assert other is not None
    assert other != words
    assert sorted(other) == sorted(words)
    assert rewrites.reorder(["one"], random.Random(3)) is None


def test_questions_and_chatter_keep_the_need_whole() -> None:
    for seed in range(20):
        rng = random.Random(seed)
        assert "depot window" in rewrites.question("depot window", rng)
        assert "depot window" in rewrites.chatty("depot window", rng)


def test_only_simple_words_are_plain() -> None:
    plain = [
        w for w in ("Depot", "depot", "depotSync", "HTTP", "v2", "Café") if rewrites.is_plain(w)
    ]
    assert plain == ["Depot", "depot"]
