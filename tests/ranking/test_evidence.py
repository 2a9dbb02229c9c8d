from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.ranking import evidence, scoring, sheet
from service.ranking.evidence import Evidence, Lookup
from service.ranking.terms import Unit

DOCS = 1000
WORDS = ["gateway", "retry", "acme", "event", "operator", "重试", "other"]
UNITS = [Unit("gateway"), Unit("acmeevent", ("acme", "event")), Unit("retries")]
LOOKUPS = [
    Lookup(0, "gateway", 1.0, 50, "exact"),
    Lookup(1, "acme", 0.5, 20, "part"),
    Lookup(1, "event", 0.5, 80, "part"),
    Lookup(2, "retry", 0.6, 10, "inflection"),
]


def gather(
    documents: list[tuple[list[str], list[str]]], phrase: list[bool] | None = None
) -> Evidence:
    sheets = sheet.Sheets(sheet.encode(title, body) for title, body in documents)
    lengths = scoring.Lengths.of(sheets.title_length, sheets.body_length, 5.0, 50.0)
    phrases = {} if phrase is None else {1: np.array(phrase)}
    return evidence.gather(UNITS, LOOKUPS, sheets, lengths, phrases, {}, DOCS)


def test_coverage_is_the_rarity_weighted_share_by_hand() -> None:
    found = gather([(["gateway"], []), ([], ["retry"]), ([], ["nothing"])])
    acme, event = scoring.idf(20, DOCS), scoring.idf(80, DOCS)
    weights = [scoring.idf(50, DOCS), (acme + event) / 2**0.5, 0.6 * scoring.idf(10, DOCS)]
    assert found.coverage.tolist() == pytest.approx(
        [weights[0] / sum(weights), 0.6 * weights[2] / sum(weights), 0.0]
    )
    assert found.title.tolist() == pytest.approx([weights[0] / sum(weights), 0, 0])


def test_parts_side_by_side_are_the_whole_word() -> None:
    found = gather([([], ["acme", "x", "event"]), ([], ["acme", "event"])], phrase=[False, True])
    assert found.coverage[0] == pytest.approx(found.coverage[1] * evidence.PARTS_SHARE)


def test_whole_means_every_unit_as_typed() -> None:
    found = gather([([], ["gateway", "acme", "event", "retry"])], phrase=[True])
    assert found.whole.tolist() == [False]  # `retry` was bent


texts = st.lists(st.sampled_from(WORDS), max_size=30)


@given(texts, texts, st.sampled_from(WORDS), st.booleans())
def test_adding_a_word_never_lowers_the_coverage(
    title: list[str], body: list[str], word: str, to_title: bool
) -> None:
    grown = ([*title, word], body) if to_title else (title, [*body, word])
    found = gather([(title, body), grown])
    assert found.coverage[1] >= found.coverage[0] - 1e-9
    assert found.title[1] >= found.title[0] - 1e-9


@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=6))
def test_every_share_is_in_zero_to_one(documents: list[tuple[list[str], list[str]]]) -> None:
    found = gather(documents, phrase=[True] * len(documents))
    for values in (found.relaxed, found.coverage, found.title):
        assert (values >= 0).all()
        assert (values <= 1 + 1e-9).all()
