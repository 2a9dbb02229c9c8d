from __future__ import annotations

from pathlib import Path

import pytest

from service.index.reader import IndexReader
from service.ranking.terms import group
from service.search import lookups, postings, strict
from service.search.postings import Postings, Scope
from service.search.vocabulary import Vocabulary
from service.text import tokenize
from tests.search.world import World


def lane(world: World, query: str) -> tuple[list[int], int]:
    """Rows of lane A, and the scans it took beyond those of the plan."""
    reader = IndexReader(world.path)
    with reader.snapshot():
        streams = tokenize(query)
        found = Postings(reader.connection, Scope())
        units = group(streams.orig, streams.sub)
        plan = lookups.plan(units, found, Vocabulary(reader.connection))
        before = found.scans
        rows = sorted(strict.strict(plan, found).tolist())
    reader.close()
    return rows, found.scans - before


def test_postings_that_are_all_known_meet_without_a_scan(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "a", "title": "heron gateway"},
            {"ref": "b", "title": "herons at the gateway"},
            {"ref": "c", "title": "heron"},
            {"ref": "d", "title": "gateway"},
        ],
    )
    assert lane(world, "heron gateway") == ([1, 2], 0)
    assert lane(world, "the heron") == ([1, 2, 3], 0), "common words are not asked for"
    assert lane(world, "heron nowhere") == ([], 0)
    assert lane(world, "") == ([], 0)


def test_parts_count_together_or_as_the_word(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "a", "title": "EventOperator gateway"},
            {"ref": "b", "title": "event operator gateway"},
            {"ref": "c", "title": "event gateway"},
            {"ref": "d", "title": "EventOperator"},
        ],
    )
    rows, scans = lane(world, "EventOperator gateway")
    assert (rows, scans) == ([1, 2], 0)


def test_where_too_many_hold_the_rarer_words_the_common_ones_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postings, "SCAN_LIMIT", 50)
    monkeypatch.setattr(Postings.ids, "__defaults__", (50,))
    monkeypatch.setattr(strict, "ENOUGH", 20)
    titles = [
        "gateway" + (" heron" if n % 3 == 0 else "") + (" crane" if n % 20 == 0 else "")
        for n in range(120)
    ]
    world = World(tmp_path, [{"ref": str(n), "title": title} for n, title in enumerate(titles)])
    few = [n + 1 for n in range(120) if n % 20 == 0]
    assert lane(world, "crane gateway") == (few, 0), "gateway is too common to know all of it"
    both = [n + 1 for n in range(120) if n % 3 == 0]
    assert lane(world, "heron gateway") == (both, 1)


def test_a_long_query_has_no_lane_a(tmp_path: Path) -> None:
    words = [f"word{'abcdefghi'[n]}" for n in range(strict.UNITS + 1)]
    world = World(tmp_path, [{"ref": "a", "title": " ".join(words)}])
    assert lane(world, " ".join(words[:-1])) == ([1], 0)
    assert lane(world, " ".join(words)) == ([], 0)
