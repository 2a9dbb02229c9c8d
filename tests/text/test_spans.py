"""Spans: where each token stands in the raw text."""

from __future__ import annotations

import pytest
from hypothesis import given

from service.text import spans, tokenize
from service.text.folding import normalise
from service.text.streams import Stream
from tests.text.strategies import texts


def cut(text: str, stream: Stream) -> list[tuple[str, str]]:
    """(raw piece, token) of one stream."""
    return [(text[s.start : s.end], s.token) for s in spans(text) if s.stream == stream]


@pytest.mark.parametrize(
    ("text", "stream", "expected"),
    [
        ("the AcmeEvent", "orig", [("the", "the"), ("AcmeEvent", "acmeevent")]),
        ("the AcmeEvent", "sub", [("Acme", "acme"), ("Event", "event")]),
        ("自动重试", "sub", [("自动", "自动"), ("动重", "动重"), ("重试", "重试")]),
        ("自动重试", "edge", [("试", "试")]),
        ("rm -rf, v1.2", "edge", [("-rf", "-rf"), ("1.2", "1.2")]),
        ("it don't", "edge", [("don't", "dont"), ("don", "don")]),
        # raw and normalised text differ in length
        ("ｶﾞｽ x", "sub", [("ｶﾞｽ", "ガス")]),
        ("a Cafe\u0301 b", "orig", [("a", "a"), ("Cafe\u0301", "cafe"), ("b", "b")]),
        ("İx y straße z", "orig", [("İx", "ix"), ("y", "y"), ("straße", "strasse"), ("z", "z")]),
        ("a ½", "orig", [("a", "a"), ("½", "1"), ("½", "2")]),
        ("x㍿y", "orig", [("x", "x"), ("㍿", "株式会社"), ("y", "y")]),
        ("so\u00adft👍🏽 é", "orig", [("so\u00adft", "soft"), ("👍🏽", "👍"), ("é", "e")]),
    ],
)
def test_where_a_token_stands(text: str, stream: Stream, expected: list[tuple[str, str]]) -> None:
    assert cut(text, stream) == expected


@given(texts)
def test_spans_carry_the_streams_in_order_and_in_bounds(text: str) -> None:
    streams: dict[Stream, list[str]] = {"orig": [], "sub": [], "edge": []}
    before = 0
    for span in spans(text):
        assert before <= span.start < span.end <= len(text)
        before = span.start
        streams[span.stream].append(span.token)
    whole = tokenize(text)
    assert streams == {"orig": whole.orig, "sub": whole.sub, "edge": whole.edge}


@given(texts)
def test_a_span_holds_its_token(text: str) -> None:
    for span in spans(text):
        piece = text[span.start : span.end]
        inside = tokenize(piece)
        divided = any(len(normalise(char)) > 1 for char in piece)  # ẞ, ½
        assert divided or span.token in {*inside.orig, *inside.sub, *inside.edge}
