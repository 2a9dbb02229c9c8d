"""Folding: one form for what is written in several ways."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given

from service.text import folding
from service.text.folding import (
    MAX_MARKS,
    SEPARATOR,
    SPACELESS,
    STEADINESS,
    STEADY_RUN,
    STEADY_SEPARATOR,
    TOKEN_PUNCTUATION,
    fold_case,
    kinds_of,
    normalise,
    normalise_with_origins,
)
from tests.text.strategies import texts


@pytest.mark.parametrize(
    ("written", "one_form"),
    [
        ("Ａ１－＿．", "A1-_."),
        ("ｶﾞｷﾞ", "ガギ"),
        ("ﬁ ² Ⅳ", "fi 2 IV"),
        ("Café Ångström Łódź Ærø Straße", "Cafe Angstrom Lodz Aero Strasse"),
        ("が", "が"),
        ("か\u3099", "が"),
        ("ё й И\u0306", "е й Й"),
        ("한", "한"),
        ("\u1112\u1161\u11ab", "한"),
        ("हिन्दी", "हिन्दी"),
        ("أحمد ـ مُحَمَّد", "احمد  محمد"),
        ("שָׁלוֹם", "שלום"),
        ("it’s co‐op", "it's co-op"),
        ("a\u200bb\u00adc\ufe0f", "abc"),
    ],
)
def test_one_form(written: str, one_form: str) -> None:
    assert normalise(written) == one_form


def test_no_case_fold_shifts_what_was_normalised() -> None:
    assert fold_case(normalise("İ")) == "i"
    assert fold_case(normalise("ẞ")) == fold_case(normalise("ß")) == "ss"
    assert fold_case("ΣΊΣΥΦΟΣ") == fold_case("σίσυφος".upper())


def test_folding_case_keeps_the_length_of_normalised_text() -> None:
    for code in range(0x110000):
        one_form = normalise(chr(code))
        assert len(fold_case(one_form)) == len(one_form), f"U+{code:04X}"


@given(texts)
def test_normalising_twice_changes_nothing(text: str) -> None:
    assert normalise(normalise(text)) == normalise(text)


@given(texts)
def test_origins_are_in_order_and_cover_the_text(text: str) -> None:
    normalised, origins = normalise_with_origins(text)
    assert normalised == normalise(text)
    assert len(origins) == len(normalised) + 1
    assert origins == sorted(origins)
    assert origins[-1] == len(text)
    assert all(0 <= origin < len(text) for origin in origins[:-1])


def test_endless_marks_are_cut() -> None:
    many = normalise("क" + "\u093c" * 10_000)
    assert len(many) <= MAX_MARKS + 1


def test_marks_are_looked_for_wherever_there_may_be_one() -> None:
    marks = [chr(code) for code in range(0x110000) if unicodedata.combining(chr(code))]
    assert len(marks) > 900
    assert all(folding._MAYBE_MARK.match(mark) for mark in marks)
    for text in (
        "“索引”损坏，重建…（全部）！",
        "検索ガバナンス・日本語「テスト」",
        "한국어, ‘검색’ 테스트",
        "naïve – Ünïcode 🚀 ☑️",
    ):
        assert not folding._MAYBE_MARK.search(text)


def test_every_printable_sign_has_its_place() -> None:
    signs = {chr(c) for c in range(0x21, 0x7F) if not chr(c).isalnum()}
    apart = {sign for sign in signs if kinds_of(sign) == bytes([SEPARATOR])}
    assert signs - apart == set(TOKEN_PUNCTUATION)


def test_steady_characters_are_what_they_promise() -> None:
    """What the short cut takes for granted holds of each character."""
    for code in range(0x80, 0x10000):
        steadiness, char = STEADINESS[code], chr(code)
        if steadiness == STEADY_RUN:
            assert normalise(char) == char
            assert kinds_of(char) == bytes([SPACELESS])
            assert unicodedata.combining(char) == 0
            assert fold_case(char) == char
            assert len(char.encode()) == 3
        elif steadiness == STEADY_SEPARATOR:
            assert unicodedata.category(char)[0] not in "LM", f"U+{code:04X}"
