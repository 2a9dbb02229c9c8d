from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ranking import sheet

WORDS = st.lists(st.sampled_from(["gateway", "retry", "重试", "c++", "é", "x"]), max_size=40)


def one_sheet(title: str, body: str) -> bytes:
    (packed,) = sheet.pack(sheet.HashedTerms([(title, body)]), tokens=[0], updated_at=[0])
    return packed


def test_a_sheet_is_the_documented_bytes() -> None:
    packed = sheet.encode(["a", "a"], ["a", "b", "b", "b"], tokens=7, updated_at=1_796_080_393_477)
    raw = np.frombuffer(packed, dtype="<u4").tolist()
    entry_a = sheet.term_hash("a") << 6 | 1 << 2 | 2
    entry_b = sheet.term_hash("b") << 6 | 3 << 2
    assert raw == [2, 4, 7, 1_796_080_393, *sorted([entry_a, entry_b])]
    assert sheet.lengths(sheet.encode(["a", "a"], ["b"])[:8]) == (2, 1)


@pytest.mark.parametrize(
    ("term", "value"), [("a", 28910095), ("gateway", 64693470), ("重试", 20664573), ("", 0)]
)
def test_the_hash_of_a_term_stays(term: str, value: int) -> None:
    assert sheet.term_hash(term) == value


@given(st.lists(st.text(st.characters(exclude_characters=" \0"), min_size=1)))
def test_the_terms_of_a_text_hash_as_each_does_alone(terms: list[str]) -> None:
    packed = one_sheet("", "  ".join(terms))
    raw = np.frombuffer(packed, dtype="<u4").tolist()
    assert [word >> 6 for word in raw[sheet.HEADER :]] == sorted(set(map(sheet.term_hash, terms)))


def test_hashes_of_like_terms_are_as_even_as_chance() -> None:
    terms = [f"{letter}{number}" for letter in "abcdefghij" for number in range(10_000)]
    same = len(terms) - len(set(map(sheet.term_hash, terms)))
    by_chance = len(terms) ** 2 / 2 / 2**sheet.HASH_BITS  # 75
    assert 0.6 * by_chance < same < 1.4 * by_chance


def test_a_term_hashes_alike_wherever_it_stands() -> None:
    packed = one_sheet("", "x " * 200_000 + "gateway")
    far = np.frombuffer(packed, dtype="<u4").tolist()
    assert sheet.term_hash("gateway") << 6 | 1 << 2 in far


@given(st.lists(st.tuples(WORDS, WORDS), max_size=8))
def test_sheets_made_together_are_those_made_alone(
    documents: list[tuple[list[str], list[str]]],
) -> None:
    streams = [(" ".join(title), " ".join(body)) for title, body in documents]
    numbers = range(len(documents))
    together = sheet.pack(sheet.HashedTerms(streams), tokens=numbers, updated_at=numbers)
    assert together == [
        sheet.encode(*document, tokens=number, updated_at=number)
        for number, document in enumerate(documents)
    ]


@given(st.integers(-(2**62), 2**62), st.integers(0, 2**40))
def test_a_touched_sheet_is_that_of_the_other_time(updated_at: int, tokens: int) -> None:
    old = sheet.encode(["a"], ["b"], tokens=tokens, updated_at=5)
    new = sheet.encode(["a"], ["b"], tokens=tokens, updated_at=updated_at)
    assert sheet.touched(old, updated_at) == new
    held = sheet.Sheets([new])
    assert held.tokens.tolist() == [min(tokens, 2**32 - 1)]
    assert held.updated_s.tolist() == [min(max(updated_at // 1_000, 0), 2**32 - 1)]


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_counts_are_those_of_the_documents(documents: list[tuple[list[str], list[str]]]) -> None:
    sheets = sheet.Sheets(sheet.encode(title, body) for title, body in documents)
    assert sheets.title_length.tolist() == [len(title) for title, _ in documents]
    assert sheets.body_length.tolist() == [len(body) for _, body in documents]
    for word in ("gateway", "重试", "absent"):
        title, body = sheets.counts(word)
        assert title.tolist() == [min(3, t.count(word)) for t, _ in documents]
        for held, (_, words) in zip(body.tolist(), documents, strict=True):
            assert (held > 0) == (word in words)
            assert held <= words.count(word)
            if words.count(word) <= 6:
                assert held == words.count(word)


def test_large_counts_take_the_lower_step() -> None:
    sheets = sheet.Sheets([sheet.encode([], ["a"] * n) for n in (7, 9, 31, 255, 256, 100_000)])
    assert sheets.counts("a")[1].tolist() == [6, 8, 24, 128, 256, 256]


def test_an_empty_document_and_an_empty_pool() -> None:
    assert sheet.Sheets([sheet.encode([], [])]).counts("a")[0].tolist() == [0]
    assert sheet.Sheets([]).count == 0
