"""The last searches' stories: which are kept, and what they tell."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.operator import reports
from service.telemetry import stories
from service.telemetry.stories import laid_out
from tests.telemetry.test_figures import LOST, NOW_MS, OFF, OK, figures, one, read


def test_a_story_tells_its_parts_one_after_another(tmp_path: Path) -> None:
    with figures(tmp_path) as worker:
        worker.searched(one(request_id="r1", total_ms=8.0))
    reader, _ = read(tmp_path)
    story = reports.query(reader, "r1")
    assert story is not None
    assert (story["tenant"], story["at_ms"], story["state"]) == ("acme", NOW_MS, "ok")
    assert story["phases"] == [
        {"name": "wait", "begin_ms": 0.0, "took_ms": 0.5},
        {"name": "lanes", "begin_ms": 0.5, "took_ms": 4.0},
    ]
    assert story["facts"]["cpu_ms"] == 2.0
    assert reports.query(reader, "r2") is None


@pytest.mark.parametrize(
    ("searched", "notable"),
    [
        (one(), False),
        (one(outcome=OFF), False),
        (one(outcome=LOST), True),
        (one(total_ms=250.0), True),
    ],
)
def test_slow_and_degraded_ones_are_notable(searched: stories.Searched, notable: bool) -> None:
    assert stories.is_notable(searched, 250) is notable


def test_ordinary_ones_do_not_push_out_notable_ones(tmp_path: Path) -> None:
    limits = {"stories_count": 5, "stories_notable_count": 5}
    with figures(tmp_path, **limits) as worker:
        worker.searched(one(outcome=LOST, request_id="lost"))
        for number in range(40):
            worker.searched(one(request_id=f"r{number}"))
    reader, _ = read(tmp_path)
    assert reports.query(reader, "lost") is not None
    assert reports.query(reader, "r0") is None
    assert reports.query(reader, "r39") is not None
    latest = reader.stories(lambda connection: stories.latest(connection, tenant=None, limit=9))
    assert [story.id for story in latest] == ["lost"]


def test_without_a_wait_the_first_part_begins_at_once() -> None:
    first, *_ = laid_out(one(outcome=OK))
    assert first.name == "wait"
    assert first.took_ms == 0.5
