"""What is an identifier, what is a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text import fold_identifier, identifiers_in, is_identifier
from service.text.identifiers import IDENTIFIER_CHARS, MAX_IDENTIFIERS
from tests.text.strategies import texts

IDENTIFIERS = (
    "CR-291543784 POL-358 pol-358 XYZ-123 CVE-2024-3094 BUG_1234 OPS-2041 #17089 #635 291543784 "
    "aafa79ac07f5 9095EA3 ABC12345 e3b0c4 550e8400-e29b-41d4-a716-446655440000 "
    "ＣＲ－２９１ ＃６０２９"
)
WORDS = (
    "word Kind gpt-4 sha-256 feb-2026 release-2025 #1 #general 2001 10000 20.04 20260131 "
    "2026-01-31 defaced beef utf8 sha256 h264 es2020 v1.2.3 covid-19 uint128 x86_64 python3 "
    "acme-gateway-dev AcmeEventOperator 修复 次 - # '' 😀"
)


@pytest.mark.parametrize("token", IDENTIFIERS.split())
def test_identifiers(token: str) -> None:
    assert is_identifier(token)


@pytest.mark.parametrize("token", [*WORDS.split(), "", "a" * 5000, "1" * (IDENTIFIER_CHARS + 1)])
def test_words(token: str) -> None:
    assert not is_identifier(token)


def test_identifiers_of_a_text_come_folded_in_order_and_once() -> None:
    text = (
        "Fix CR-291543784 (see #6029), branch feature/OPS-2041-fix-it at aafa79ac07f5; "
        "修复POL-358的 bug, cr-291543784 again, ＡＢＣ-９９９, in 2026, v1.2.3, 20 times"
    )
    assert identifiers_in(text) == [
        *("cr-291543784", "#6029", "ops-2041", "aafa79ac07f5", "pol-358", "abc-999"),
    ]


def test_identifiers_of_a_text_are_bounded() -> None:
    many = " ".join(f"ABC-{number}" for number in range(1000, 3000))
    assert identifiers_in(many) == [
        f"abc-{number}" for number in range(1000, 1000 + MAX_IDENTIFIERS)
    ]
    assert identifiers_in(many, limit=2) == ["abc-1000", "abc-1001"]
    assert identifiers_in("1" * 1_000_000) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("CR-291543784", "cr-291543784"),
        ("ＣＲ－２９１", "CR-291"),
        (" T:1/a ", "t:1/A"),
        ("Café\u200b-1", "cafe-1"),
        ("a \n b", "A B"),
    ],
)
def test_one_form(one: str, other: str) -> None:
    assert fold_identifier(one) == fold_identifier(other)


def test_punctuation_is_part_of_an_identifier() -> None:
    assert fold_identifier("#6029") != fold_identifier("6029")
    assert fold_identifier("T.Docs@v1/a_b") == "t.docs@v1/a_b"


@given(texts)
def test_folding_twice_changes_nothing(text: str) -> None:
    assert fold_identifier(fold_identifier(text)) == fold_identifier(text)


@given(texts)
def test_what_a_text_mentions_is_an_identifier(text: str) -> None:
    for found in identifiers_in(text + " x CR-291"):
        assert is_identifier(found)
        assert fold_identifier(found) == found


def test_identifiers_stand_anywhere_in_a_text() -> None:
    assert identifiers_in("#6029") == ["#6029"]
    assert identifiers_in("291543784") == ["291543784"]
    assert identifiers_in("5#17089,(BUG_1234)ＡＢＣ１２３４５") == [
        "#17089",
        "bug_1234",
        "abc12345",
    ]
    assert identifiers_in("-POL-358- a1b2c3d\ud800CR-291\0CR-292") == [
        *("pol-358", "a1b2c3d", "cr-291", "cr-292"),
    ]


@given(texts, st.sampled_from(IDENTIFIERS.split()), texts)
def test_an_identifier_on_its_own_is_found(before: str, token: str, after: str) -> None:
    assert fold_identifier(token) in identifiers_in(f"{before} {token} {after}")
