"""Snippets: the right window, exact marks, whatever the text."""

from __future__ import annotations

import re
from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text import Snippet, snippet, tokenize
from tests.text.strategies import texts

FILLER = "lorem ipsum dolor sit amet "


def tokens(text: str) -> set[str]:
    streams = tokenize(text)
    return {*streams.orig, *streams.sub, *streams.edge}


def shown(text: str, query: str, *, width_chars: int = 60) -> str:
    """The snippet with its marks in brackets."""
    cut = snippet(text, tokens(query), width_chars=width_chars)
    out = cut.text
    for start, end in reversed(cut.marks):
        out = f"{out[:start]}[{out[start:end]}]{out[end:]}"
    return out


@pytest.mark.parametrize(
    ("text", "query", "expected"),
    [
        ("the AcmeEventOperator cache", "event operator", "the Acme[EventOperator] cache"),
        ("concatenate the cat", "cat", "concatenate the [cat]"),
        ("失败后自动重试三次", "自动重试", "失败后[自动重试]三次"),
        ("失败后自动重试三次", "重", "失败后自动[重]试三次"),
        ("a Café, crème", "cafe creme", "a [Café], [crème]"),
        ("ｱﾌﾟﾘ を ＡＰＩ で", "アプリ api", "[ｱﾌﾟﾘ] を [ＡＰＩ] で"),
        ("İİ straße here", "strasse here", "İİ [straße] [here]"),
        ("Never use rm -rf here", "rm -rf", "Never use [rm] [-rf] here"),
        ("the C++ build, C only", "c++", "the [C++] build, C only"),
        ("so  much \n\n\t space", "much space", "so [much] [space]"),
        ("nothing here", "zebra", "nothing here"),
    ],
)
def test_marks_are_exact(text: str, query: str, expected: str) -> None:
    assert shown(text, query) == expected


def test_the_window_is_centred_and_cut_between_words() -> None:
    text = FILLER * 40 + "the heron lands " + FILLER * 40
    cut = snippet(text, {"heron"}, width_chars=60)
    assert cut.cut_head
    assert cut.cut_tail
    assert len(cut.text) <= 60
    ((start, end),) = cut.marks
    assert cut.text[start:end] == "heron"
    assert 15 <= start <= 40
    assert set(cut.text.split()) <= set(text.split())
    assert text[cut.start :].startswith(cut.text[:10])


def test_the_window_with_more_terms_wins() -> None:
    text = "otter otter otter " + FILLER * 20 + "otter meets heron " + FILLER * 20
    assert "[otter] meets [heron]" in shown(text, "otter heron")


def test_a_false_promise_loses_to_a_kept_one() -> None:
    """`cat` inside a word of Cyrillic neighbours looks like a place and is none."""
    text = "жcatж " * 3 + FILLER * 20 + "a cat"
    assert shown(text, "cat").endswith("a [cat]")


def test_without_a_match_the_head_is_shown() -> None:
    cut = snippet("  \n head " + FILLER * 20, {"zebra"}, width_chars=30)
    assert cut.text.startswith("head lorem")
    assert (cut.marks, cut.cut_head, cut.cut_tail) == ((), False, True)
    assert snippet("", {"x"}) == Snippet("")
    assert snippet(" \n ", {"x"}).text == ""


def test_no_character_is_torn() -> None:
    text = "👨\u200d👩\u200d👧" * 30 + "e\u0301" * 60 + "🇩🇪" * 30
    for width in range(1, 60):
        cut = snippet(text, {"zebra"}, width_chars=width)
        rest = text[cut.start + len(cut.text) :]
        assert not rest.startswith(("\u200d", "\u0301"))
        assert not cut.text.endswith("\u200d")
        assert cut.text.count("🇩") == cut.text.count("🇪")


def test_a_long_text_is_searched_far() -> None:
    text = FILLER * 4_000 + "heron"
    assert shown(text, "heron").endswith("[heron]")


@given(
    st.lists(texts, max_size=8).map(" ".join),
    st.lists(texts, max_size=3).map(" ".join),
    st.integers(1, 80),
)
def test_marks_are_in_bounds_apart_and_true(text: str, query: str, width_chars: int) -> None:
    for asked in (query, text[5:25]):
        wanted = tokens(asked)
        cut = snippet(text, wanted, width_chars=width_chars)
        assert len(cut.text) <= max(width_chars, 1)
        assert 0 <= cut.start <= len(text)
        before = -1
        for start, end in cut.marks:
            assert before < start < end <= len(cut.text)
            before = end
            assert is_made_of(wanted, cut.text[start:end])


def is_made_of(wanted: Collection[str], marked: str) -> bool:
    """Whether a mark is a term, or terms that touch: `a` and `0` of `a0`."""
    either = "|".join(map(re.escape, wanted))
    return bool(tokens(marked) & set(wanted)) or bool(
        re.fullmatch(f"(?:{either})+", marked.lower())
    )


@given(texts, st.integers(0, 30))
def test_a_word_of_the_text_is_marked(text: str, padding: int) -> None:
    source = FILLER * padding + " quokka " + text
    cut = snippet(source, {"quokka"})
    assert "quokka" in {cut.text[start:end] for start, end in cut.marks}
