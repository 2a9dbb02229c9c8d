from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from embedder.split import Passage, split
from embedder.tokens import TextTokenizer

PIECES = st.sampled_from(
    [
        "word ",
        "a",
        "\r\n\r\n",
        "\n",
        ". ",
        "記事",
        "。",
        "🙂",
        " ",
        "\t",
        "x" * 40,
        "é",
        "\x00",
        "end.",
    ]
)
TEXTS = st.lists(PIECES, max_size=80).map("".join)


def cut(text: str, tokenizer: TextTokenizer, most: int, cap: int = 0) -> tuple[list[str], int]:
    passages, dropped = split(text, tokenizer, max_tokens=most, max_passages=cap)
    return [text[passage.start : passage.end] for passage in passages], dropped


@settings(deadline=None)
@given(TEXTS, st.integers(1, 30))
def test_passages_cover_the_text_in_order_and_fit(
    tokenizer: TextTokenizer, text: str, most: int
) -> None:
    passages, dropped = split(text, tokenizer, max_tokens=most)
    assert dropped == 0
    at = 0
    for passage in passages:
        assert passage.start >= at
        assert text[at : passage.start].strip() == ""
        inside = text[passage.start : passage.end]
        assert inside
        assert inside == inside.strip()
        assert passage.tokens == tokenizer.count(inside)
        assert passage.tokens <= most or len(inside) == 1
        at = passage.end
    assert text[at:].strip() == ""


@settings(deadline=None)
@given(TEXTS, st.integers(1, 30), st.integers(1, 4))
def test_what_a_cap_drops_is_counted(
    tokenizer: TextTokenizer, text: str, most: int, cap: int
) -> None:
    whole, _ = split(text, tokenizer, max_tokens=most)
    kept, dropped = split(text, tokenizer, max_tokens=most, max_passages=cap)
    assert kept == whole[:cap]
    assert dropped == sum(passage.tokens for passage in whole[cap:])


def test_a_text_that_fits_is_one_passage(tokenizer: TextTokenizer) -> None:
    assert split("  two lines\n\nhere \r\n", tokenizer, max_tokens=50)[0] == [
        Passage(2, 17, tokenizer.count("two lines\n\nhere"))
    ]


def test_blank_texts_have_no_passages(tokenizer: TextTokenizer) -> None:
    for text in ("", " ", "\r\n \t\n"):
        assert split(text, tokenizer, max_tokens=5) == ([], 0)


def test_the_cut_falls_at_an_empty_line_before_a_line_before_a_sentence(
    tokenizer: TextTokenizer,
) -> None:
    text = "aa bb cc dd. ee ff\r\n\r\ngg hh. ii\njj kk ll mm nn"
    most = tokenizer.count("aa bb cc dd. ee ff\r\n\r\ngg hh. ii\njj kk")
    assert cut(text, tokenizer, most)[0][0] == "aa bb cc dd. ee ff"
    text = "aa bb cc dd. ee ff gg\nhh ii. jj kk ll mm nn"
    most = tokenizer.count("aa bb cc dd. ee ff gg\nhh ii. jj kk")
    assert cut(text, tokenizer, most)[0][0] == "aa bb cc dd. ee ff gg"
    text = "aa bb cc dd ee ff. gg hh ii jj kk ll mm nn"
    most = tokenizer.count("aa bb cc dd ee ff. gg hh ii")
    assert cut(text, tokenizer, most)[0][0] == "aa bb cc dd ee ff."


def test_text_without_spaces_is_cut_between_characters(tokenizer: TextTokenizer) -> None:
    text = "記" * 40
    parts, _ = cut(text, tokenizer, 12)  # three bytes, three tokens each
    assert parts == ["記" * 4] * 10


def test_a_long_text_is_cut_in_blocks_as_in_one_go(tokenizer: TextTokenizer) -> None:
    text = "The writer keeps the file. Readers follow it.\r\n\r\n" * 4_000
    parts, dropped = cut(text, tokenizer, 60)
    assert dropped == 0
    assert " ".join(" ".join(parts).split()) == " ".join(text.split())
    assert all(tokenizer.count(part) <= 60 for part in parts)
    assert len(parts) < 2.5 * tokenizer.count(text) / 60
