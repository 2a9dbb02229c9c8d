"""Probes are fair (the untouched need points at few documents), named rightly, and repeatable."""

from __future__ import annotations

import unicodedata

import pytest

from golden import cases, judged
from golden.lexicon import Document, Lexicon, document, words
from golden.robustness import FAMILIES, RIVALS, Probe, probes


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [document(line) for line in judged.lines(cases.DEMO_CORPUS)]


@pytest.fixture(scope="module")
def found(documents: list[Document]) -> list[Probe]:
    return list(probes(documents, seed=7, per_class=20))


def of(found: list[Probe], family: str) -> list[Probe]:
    chosen = [probe for probe in found if probe.family == family]
    assert chosen, f"the demo memory gives no {family} probe"
    return chosen


def test_every_family_finds_something_to_rewrite(found: list[Probe]) -> None:
    assert {probe.family for probe in found} == set(FAMILIES)


def test_the_same_seed_gives_the_same_probes_and_another_seed_others(
    documents: list[Document], found: list[Probe]
) -> None:
    assert list(probes(documents, seed=7, per_class=20)) == found
    assert list(probes(documents, seed=8, per_class=20)) != found


def test_a_family_has_at_most_so_many_probes_one_a_document(found: list[Probe]) -> None:
    for family in FAMILIES:
        refs = [probe.ref for probe in found if probe.family == family]
        assert len(refs) == len(set(refs)) <= 20


def test_the_untouched_words_point_at_few_documents(
    documents: list[Document], found: list[Probe]
) -> None:
    lexicon = Lexicon(documents)
    for probe in of(found, "control"):
        assert 1 <= lexicon.holders(words(probe.query)) <= RIVALS


def test_a_misspelt_word_is_no_word_of_the_corpus(
    documents: list[Document], found: list[Probe]
) -> None:
    lexicon = Lexicon(documents)
    for family in ("typo-1", "typo-2", "transposition", "inflection", "unfinished"):
        for probe in of(found, family):
            assert any(not lexicon.frequency(word) for word in probe.query.split())


def test_reordered_joined_and_full_width_needs_are_the_control_need_rewritten(
    found: list[Probe],
) -> None:
    need = {probe.ref: probe.query for probe in of(found, "control")}
    for probe in of(found, "full-width"):
        if probe.ref in need:
            assert unicodedata.normalize("NFKC", probe.query) == need[probe.ref]
    for probe in of(found, "reorder"):
        if probe.ref in need:
            assert sorted(probe.query.split()) == sorted(need[probe.ref].split())
            assert probe.query != need[probe.ref]
    for probe in of(found, "join"):
        if probe.ref in need:
            assert probe.query.replace(" ", "") == need[probe.ref].replace(" ", "")


def test_cjk_pieces_come_from_the_title(documents: list[Document], found: list[Probe]) -> None:
    titles = {d.ref: d.title for d in documents}
    for probe in of(found, "cjk-part"):
        assert probe.query in titles[probe.ref]
    for probe in of(found, "cjk-two-words"):
        first, second = probe.query.split()
        assert titles[probe.ref].index(first) < titles[probe.ref].rindex(second)


def test_identifier_prefixes_are_heads_of_identifiers(
    documents: list[Document], found: list[Probe]
) -> None:
    texts = {d.ref: (d.title, *d.identifiers) for d in documents}
    for probe in of(found, "identifier-prefix"):
        assert len(probe.query) >= 6
        assert any(probe.query in text for text in texts[probe.ref])


def test_documents_with_equal_titles_are_not_probed(found: list[Probe]) -> None:
    assert not {"HBL-1039", "HBL-1040"} & {probe.ref for probe in found}
