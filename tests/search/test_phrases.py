from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from service.index.reader import IndexReader
from service.ranking.sheet import Sheets
from service.search import phrases
from service.search.phrases import Phrases
from service.search.postings import Postings, Scope
from tests.search.world import World

WORDS = [
    "red",
    "heron",
    "RedHeron",
    "red-heron",
    "crane.py",
    "v1.2",
    "索引损坏",
    "検索",
    "한국어",
    "ops-2041",
]
PHRASES = [
    ["red", "heron"],
    ["heron", "red"],
    ["red", "heron", "crane"],
    ["redheron", "red-heron"],
    ["索引", "引损", "损坏"],
    ["损坏", "検索"],
    ["crane", "py"],
    ["v", "1", "2"],
    ["ops", "2041"],
    ["nowhere", "red"],
]


@pytest.fixture
def reader(tmp_path: Path) -> IndexReader:
    rng = random.Random(3)

    def text(most: int) -> str:
        return " ".join(rng.choices(WORDS, k=rng.randrange(most)))

    rows = [
        {"ref": str(n), "title": text(5), "summary": text(4), "note": text(30), "meta": text(3)}
        for n in range(200)
    ]
    return IndexReader(World(tmp_path, rows).path)


def phrases_of(reader: IndexReader) -> Phrases:
    sheets = Sheets(
        sheet for (sheet,) in reader.connection.execute("SELECT sheet FROM doc_sheet ORDER BY id")
    )
    rows = np.arange(1, sheets.count + 1, dtype=np.int64)
    return Phrases(reader.connection, rows, sheets, Postings(reader.connection, Scope()))


@pytest.mark.parametrize("phrase", PHRASES)
def test_texts_and_fts5_agree_on_what_stands_together(
    reader: IndexReader, phrase: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with reader.snapshot():
        monkeypatch.setattr(phrases, "ROW_US", 0.0)
        monkeypatch.setattr(phrases, "TERM_US", 0.0)
        read = phrases_of(reader)
        by_reading = read.held(phrase).tolist()
        monkeypatch.setattr(phrases, "ROW_US", 1e9)
        scanned = phrases_of(reader)
        assert scanned.held(phrase).tolist() == by_reading
        assert scanned._cut == {}
        assert bool(read._cut) == ("nowhere" not in phrase)
        assert any(by_reading) == ("nowhere" not in phrase)


def test_only_what_is_among_the_given_rows_is_looked_at(reader: IndexReader) -> None:
    with reader.snapshot():
        found = phrases_of(reader)
        everywhere = found.held(["red", "heron"])
        even = np.arange(len(everywhere)) % 2 == 0
        assert found.held(["red", "heron"], even).tolist() == (everywhere & even).tolist()
        assert not found.held(["red", "heron"], np.zeros(len(even), dtype=np.bool_)).any()


def test_few_rows_are_read_and_many_are_scanned(reader: IndexReader) -> None:
    with reader.snapshot():
        few = np.arange(200) == 17
        found = phrases_of(reader)
        found.held(["red", "heron"], few)
        assert set(found._cut) <= {17}
        found.held(["red", "heron"])
        assert set(found._cut) <= {17}
