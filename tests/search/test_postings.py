from __future__ import annotations

from pathlib import Path

import pytest

from service.index.reader import IndexReader
from service.ranking import lanes
from service.search import postings
from service.search.postings import Memory, Postings, Scope
from tests.search.world import World


def test_frequencies_of_common_terms_are_estimated_closely(tmp_path: Path) -> None:
    many = 12_000
    world = World(
        tmp_path,
        [{"ref": str(n), "title": "all " + ("half" if n % 2 else "other")} for n in range(many)],
    )
    reader = IndexReader(world.path)
    with reader.snapshot():
        found = Postings(reader.connection, Scope())
        assert len(found.ids('"all"')) == postings.SCAN_LIMIT
        assert abs(found.frequency("all") - many) < many * 0.02
        assert abs(found.frequency("half") - many / 2) < many * 0.02
        assert found.frequency("nowhere") == 0


def test_scans_are_remembered_for_one_version_and_never_across_scopes(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": "a", "title": "heron"}, {"ref": "b", "kind": "task"}])
    reader = IndexReader(world.path)
    memory = Memory()
    with reader.snapshot():
        first = Postings(reader.connection, Scope(), memory=memory)
        assert first.ids('"heron"').tolist() == [1]
        again = Postings(reader.connection, Scope(), memory=memory)
        assert (again.ids('"heron"').tolist(), again.scans) == ([1], 0)
        scoped = Postings(reader.connection, Scope(kinds=("task",)), memory=memory)
        assert scoped.ids('"heron"').tolist() == []
    with reader.snapshot():
        reader.remembered["x"] = 1
    world.add({"ref": "c", "title": "heron"})
    with reader.snapshot():
        assert reader.remembered == {}


def test_memory_forgets_the_least_recently_asked(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": str(n), "title": f"w{n} all"} for n in range(10)])
    reader = IndexReader(world.path)
    memory = Memory()
    limit, postings.REMEMBERED_TERMS = postings.REMEMBERED_TERMS, 3
    try:
        with reader.snapshot():
            found = Postings(reader.connection, Scope(), memory=memory)
            for n in (0, 1, 2, 0, 3):
                found.ids(f'"w{n}"')
            assert found.scans == 4
            found.ids('"w0"')
            assert found.scans == 4
            found.ids('"w1"')
            assert found.scans == 5
    finally:
        postings.REMEMBERED_TERMS = limit


def test_a_phrase_of_common_words_is_looked_for_in_the_newest_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path, [{"ref": str(n), "title": "all the same"} for n in range(100)])
    reader = IndexReader(world.path)
    with reader.snapshot():
        found = Postings(reader.connection, Scope())
        assert len(found.together('"all the"', ["all", "the"], 1_000)) == 100
        monkeypatch.setattr(lanes, "WALK_LIMIT", 400)
        monkeypatch.setattr(Postings.floor, "__defaults__", (400,))
        # 100 + 100 postings, and 6 * 100 for where they meet: half of that is within the limit
        assert found.together('"the same"', ["the", "same"], 1_000).tolist() == list(
            range(100, 50, -1)
        )
        assert len(found.together('"all nowhere"', ["all", "nowhere"], 1_000)) == 0


def test_what_is_required_and_nowhere_is_known_at_once(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": "a", "title": "red heron"}, {"ref": "b", "title": "blue"}])
    reader = IndexReader(world.path)
    with reader.snapshot():
        for required, barren in (
            ([], False),
            (['"red heron"'], False),
            (['"heron red"'], True),
            (['"red"', '"blue"'], True),
        ):
            found = Postings(reader.connection, Scope(), required=required)
            assert found.barren is barren
