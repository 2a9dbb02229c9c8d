from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.search import layers
from service.search.request import Hit
from service.text.tokens import estimate_tokens
from tests.text.strategies import texts


def hit(**fields: object) -> Hit:
    values: dict[str, object] = {
        "kind": "note",
        "ref": "n1",
        "title": "Gateway",
        "score": 0.5,
        "components": {"strict": 0.5},
        "snippet": "the gateway waits",
        "marks": ((4, 11),),
        "updated_at": 0,
        "tokens": 9,
    }
    return Hit(**{**values, **fields})  # type: ignore[arg-type]


def test_a_row_says_what_it_is_why_it_was_found_and_what_it_costs() -> None:
    components = {"strict": 0.999, "coverage": 1.0, "title": 0.05, "recency": 0.1}
    (row,) = layers.compact([hit(score=1.2345, components=components, tokens=320)])
    assert layers.names_of([hit(components=components)]) == list(components)
    assert row.cells() == ["note", "n1", "Gateway", "the gateway waits", 1.23, "9901", 320]


def test_hits_with_other_components_share_one_order_of_digits() -> None:
    hits = [hit(components={"strict": 0.4}), hit(components={"semantic": 0.7})]
    assert layers.names_of(hits) == ["strict", "semantic"]
    assert [row.components for row in layers.compact(hits)] == ["40", "07"]


def test_a_snippet_that_the_title_holds_already_is_not_shown_again() -> None:
    (row,) = layers.compact([hit(title="What the gateway waits for", snippet="the gateway waits")])
    assert row.snippet == ""


def test_the_match_stays_in_sight_when_a_snippet_is_cut() -> None:
    text = "before " * 20 + "the needle in the middle " + "after " * 20
    at = text.index("needle")
    (row,) = layers.compact([hit(title="t", snippet=text, marks=((at, at + 6),))])
    assert "needle" in row.snippet
    assert row.snippet.startswith("…")
    assert row.snippet.endswith("…")
    assert len(row.snippet) <= layers.SNIPPET_CHARACTERS + 2


def test_characters_that_cost_a_token_each_get_fewer_of_them() -> None:
    english, chinese = layers.compact(
        [
            hit(title="t", snippet="the gateway waits a little longer after each attempt " * 3),
            hit(title="t", snippet="网关在失败后自动重试每次等待的时间更长最后返回错误" * 4),
        ]
    )
    assert len(chinese.snippet) < len(english.snippet) / 2
    assert estimate_tokens(chinese.snippet) <= layers.ROW_TOKENS


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=12))
def test_a_page_keeps_to_its_tokens_whatever_it_holds(pairs: list[tuple[str, str]]) -> None:
    hits = [hit(title=title, snippet=snippet, marks=()) for title, snippet in pairs]
    rows = layers.compact(hits)
    spent = sum(estimate_tokens(f"{row.title} {row.snippet}") for row in rows)
    # One over for each cut: `…` is not counted when the place of the cut is chosen.
    assert spent <= len(rows) * (layers.ROW_TOKENS + 4)
    for row in rows:
        assert "\n" not in row.title
        assert len(row.title) <= layers.TITLE_CHARACTERS + 2


@given(texts, st.integers(1, 40), st.integers(1, 120), st.integers(0, 200))
def test_a_window_is_a_piece_of_the_text(text: str, tokens: int, characters: int, at: int) -> None:
    piece = layers.window(text, at, tokens=tokens, characters=characters)
    assert piece.strip("…").strip() in text
    assert len(piece) <= max(characters, 1) + 2


def test_what_is_saved_is_said_in_percent_and_never_below_nothing() -> None:
    assert layers.Figures(shown=100, full=1_000).saved_percent == 90
    assert layers.Figures(shown=100, full=50).saved_percent == 0
    assert layers.Figures(shown=100, full=0).saved_percent == 0
    assert layers.Figures(shown=100, full=1_000).body() == {
        "shown": 100,
        "full": 1_000,
        "saved_percent": 90,
        "error_percent": 25,
    }
