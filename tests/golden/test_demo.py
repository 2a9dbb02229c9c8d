"""The demo memory is what the cases stand on: enough of it, of every kind and language."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from typing import Any

import orjson
import pytest

from golden import builds, cases, judged
from service.index.document import Upsert

FIELDS = ["kind", "ref", "title", "summary", "note", "meta", "updated_at", "identifiers"]
JANUARY_2025_MS = 1_735_689_600_000
DECEMBER_2026_MS = 1_796_083_200_000


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in judged.lines(cases.DEMO_CORPUS)]


def test_there_are_enough_documents_with_refs_of_their_own(rows: list[dict[str, Any]]) -> None:
    assert len(rows) >= 240
    assert len({row["ref"] for row in rows}) == len(rows)
    assert all(list(row) == FIELDS for row in rows)


def test_the_writer_takes_every_line(rows: list[dict[str, Any]]) -> None:
    operations = [operation for batch in builds.batches(cases.DEMO_CORPUS) for operation in batch]
    assert len(operations) == len(rows)
    assert all(isinstance(operation, Upsert) for operation in operations)


def test_kinds_stand_in_a_memorys_proportions(rows: list[dict[str, Any]]) -> None:
    kinds = Counter(row["kind"] for row in rows)
    assert set(kinds) == {"task", "note", "memory", "session", "skill"}
    assert kinds["task"] > len(rows) / 2 > kinds["note"] > kinds["memory"] > kinds["skill"] >= 10


@pytest.mark.parametrize(
    ("letters", "least"),
    [("[一-鿿]", 50), ("[ぁ-ヿ]", 20), ("[가-힣]", 20), ("[ก-๛]", 1), ("[繁體台灣]", 3)],
)
def test_every_language_is_there(rows: list[dict[str, Any]], letters: str, least: int) -> None:
    held = sum(bool(re.search(letters, row["title"] + row["note"])) for row in rows)
    assert held >= least


def test_there_are_stubs_and_long_texts(rows: list[dict[str, Any]]) -> None:
    assert sum(not row["note"] and len(row["title"]) < 20 for row in rows) >= 5
    assert sum(len(row["note"]) >= 1_000 for row in rows) >= 5


def test_dates_lie_in_two_years_and_differ(rows: list[dict[str, Any]]) -> None:
    dates = [row["updated_at"] for row in rows]
    assert min(dates) >= JANUARY_2025_MS
    assert max(dates) < DECEMBER_2026_MS
    assert len(set(dates)) > 0.9 * len(dates)


def test_text_is_composed_and_without_control_characters(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        text = f"{row['title']}{row['summary']}{row['note']}".replace("\n", "")
        assert unicodedata.is_normalized("NFC", text), row["ref"]
        assert text.isprintable(), row["ref"]
