from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.errors import NotFound
from service.index.reader import IndexReader
from service.search.timeline import Timeline, TimelineRequest, around
from tests.search.world import World


@contextmanager
def reading(world: World) -> Iterator[IndexReader]:
    reader = IndexReader(world.path)
    with reader.snapshot():
        yield reader
    reader.close()


def look(reader: IndexReader, ref: str, *, kind: str = "note", **fields: object) -> Timeline:
    values: dict[str, object] = {"before": 5, "after": 5, "within_kind": True}
    return around(reader, TimelineRequest(kind=kind, ref=ref, **{**values, **fields}))  # type: ignore[arg-type]


def refs(timeline: Timeline) -> tuple[list[str], str, list[str]]:
    before, after = timeline.before, timeline.after
    return [each.ref for each in before], timeline.here.ref, [each.ref for each in after]


def test_neighbours_stand_in_order_of_time_the_nearest_first(tmp_path: Path) -> None:
    days = [5, 1, 4, 2, 3]
    world = World(tmp_path, [{"ref": f"d{n}", "title": "t", "updated_at": n} for n in days])
    with reading(world) as reader:
        assert refs(look(reader, "d3")) == (["d1", "d2"], "d3", ["d4", "d5"])
        assert refs(look(reader, "d3", before=1, after=1)) == (["d2"], "d3", ["d4"])
        assert refs(look(reader, "d1", before=1, after=0)) == ([], "d1", [])


def test_within_its_kind_or_among_all(tmp_path: Path) -> None:
    world = World(
        tmp_path,
        [
            {"ref": "n1", "title": "t", "updated_at": 1},
            {"ref": "t2", "kind": "task", "title": "t", "updated_at": 2},
            {"ref": "n3", "title": "t", "updated_at": 3},
        ],
    )
    with reading(world) as reader:
        assert refs(look(reader, "n3")) == (["n1"], "n3", [])
        assert refs(look(reader, "n3", within_kind=False)) == (["n1", "t2"], "n3", [])
        assert refs(look(reader, "t2", kind="task", within_kind=False)) == (["n1"], "t2", ["n3"])


def test_a_moment_shows_the_beginning_and_the_whole_cost(tmp_path: Path) -> None:
    world = World(tmp_path, [{"ref": "a", "title": "Long\nstory", "note": "word\n" * 2_000}])
    with reading(world) as reader:
        here = look(reader, "a").here
    assert here.title == "Long story"
    assert here.snippet.startswith("word word")
    assert here.snippet.endswith("…")
    assert 800 < here.tokens < 3_000


def test_a_document_that_is_not_there(tmp_path: Path) -> None:
    with reading(World(tmp_path, [{"ref": "a", "title": "t"}])) as reader:
        with pytest.raises(NotFound):
            look(reader, "b")
        with pytest.raises(NotFound):
            look(reader, "a", kind="task")


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(moments=st.lists(st.integers(0, 3), min_size=1, max_size=12), step=st.integers(1, 4))
def test_walking_back_and_forth_meets_every_document_once(
    tmp_path_factory: pytest.TempPathFactory, moments: list[int], step: int
) -> None:
    made = [{"ref": f"r{n}", "title": "t", "updated_at": at} for n, at in enumerate(moments)]
    world = World(tmp_path_factory.mktemp("walk"), made)
    with reading(world) as reader:
        seen, at = ["r0"], "r0"
        while more := refs(look(reader, at, before=0, after=step))[2]:
            seen += more
            at = more[-1]
        at = "r0"
        while more := refs(look(reader, at, before=step, after=0))[0]:
            seen = [*more, *seen]
            at = more[0]
    times = dict(zip([f"r{n}" for n in range(len(moments))], moments, strict=True))
    assert sorted(seen) == sorted(times)
    assert [times[ref] for ref in seen] == sorted(moments)
