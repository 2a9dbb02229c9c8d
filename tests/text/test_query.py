"""The query grammar, and that everything else is text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.text import ParsedQuery, parse_query, tokenize
from tests.text.strategies import texts

DAY_MS = 86_400_000
NEW_YEAR_2026_MS = 1_767_225_600_000


@pytest.mark.parametrize(
    ("raw", "read"),
    [
        ("retry policy", ParsedQuery("retry policy")),
        ('"OPS-2041"', ParsedQuery("OPS-2041", phrases=("OPS-2041",))),
        ('note -"OPS-2041"', ParsedQuery("note", excluded=("OPS-2041",))),
        ('a "b  c" d', ParsedQuery("a b  c d", phrases=("b  c",))),
        ("“smart quotes” x", ParsedQuery("smart quotes x", phrases=("smart quotes",))),
        ('重试"超时"x', ParsedQuery("重试 超时 x", phrases=("超时",))),
        ("note -draft -旧 -2024", ParsedQuery("note", excluded=("draft", "旧", "2024"))),
        ("note -gen-itgc", ParsedQuery("note", excluded=("gen-itgc",))),
        ("falcon kind:note", ParsedQuery("falcon", kinds=("note",))),
        ("KIND:note,task x kind:note", ParsedQuery("x", kinds=("note", "task"))),
        ("kind:note", ParsedQuery("", kinds=("note",))),
        ("x after:2026-01-01", ParsedQuery("x", updated_after_ms=NEW_YEAR_2026_MS)),
        ("x before:2026-01-02", ParsedQuery("x", updated_before_ms=NEW_YEAR_2026_MS + DAY_MS - 1)),
        ("x after:1970-01-01", ParsedQuery("x", updated_after_ms=0)),
        (
            "after:2025-01-01 after:2026-01-01 before:2027-01-01 before:2026-01-02 x",
            ParsedQuery(
                "x",
                updated_after_ms=NEW_YEAR_2026_MS,
                updated_before_ms=NEW_YEAR_2026_MS + DAY_MS - 1,
            ),
        ),
    ],
)
def test_what_the_grammar_reads(raw: str, read: ParsedQuery) -> None:
    assert parse_query(raw) == read


@pytest.mark.parametrize(
    "raw",
    [
        *("rm -rf", "ls -la /tmp", "git commit --amend", "tail -5", "x - y", "-", "--", "-rf"),
        *("gen-itgc", "title:x", "^title", "NEAR(", "a AND", "OR NOT", "{tsub}:x", "*", "'", "((("),
        *('a"b', '"unclosed', '5" disk', '-"', "kind:", "after:soon", "after:2026-02-30"),
        *("before:2026-13-01", "after:0000-01-01", "mail:kind:note", "“", "C++", "don't"),
        *(f"kind:{'x' * 65}", "kind:a/b"),
    ],
)
def test_the_rest_is_text_as_it_stands(raw: str) -> None:
    assert parse_query(raw) == ParsedQuery(raw)


@pytest.mark.parametrize("raw", ["-draft", '-"two words"', "-draft -old", "* -draft"])
def test_a_query_of_exclusions_alone_is_text(raw: str) -> None:
    assert parse_query(raw) == ParsedQuery(raw)


def test_exclusions_beside_a_filter_alone_are_text() -> None:
    assert parse_query("-draft kind:note") == ParsedQuery("-draft", kinds=("note",))


def test_a_phrase_without_a_token_is_none() -> None:
    assert parse_query('x "***"').phrases == ()
    assert parse_query('x -"***"').excluded == ()


@given(st.lists(st.one_of(texts, st.sampled_from(['"', "-", "“", "kind:a", "after:2026-01-01"]))))
def test_reading_is_total_and_loses_nothing(pieces: list[str]) -> None:
    raw = " ".join(pieces)
    read = parse_query(raw)
    for phrase in (*read.phrases, *read.excluded):
        assert tokenize(phrase).orig
    if read.excluded:
        assert tokenize(read.text).orig
    said = " ".join([read.text, *read.excluded, *read.kinds])
    typed = tokenize(raw).orig
    spoken = set(tokenize(said).orig) | {"kind", "after", "before"}
    lost = [token for token in typed if token not in spoken and not token.startswith("2026")]
    assert lost == []


def test_hostile_queries_are_read() -> None:
    for piece in ('"', "-", '-"', "kind:", "“a", '"a" ', "-abc ", " "):
        parse_query(piece * 4096)
