"""Each kind of source from a realistic file to the service: all arrives, once, and stays put."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from service.settings import Settings
from service.sources.known import guess, open_source
from tests.sources.test_claude_code import AT_MS, SESSION, text
from tests.sources.test_databases import AGENTKITS, MS, WALNUT, add, database
from tests.sources.world import Hosted, Machine

COUNT = 120


@dataclasses.dataclass(frozen=True)
class Made:
    """A source that was made, the documents by kind that are in it, and their times."""

    path: Path
    kinds: dict[str, int]
    times: set[int] | None


def aged(path: Path) -> None:
    moment = time.time() - 1_000
    os.utime(path, (moment, moment))


def ndjson(folder: Path) -> Made:
    path = folder / "memory.ndjson"
    rows = [
        {
            "kind": ("task", "note")[n % 2],
            "ref": f"r{n}",
            "title": f"标题 {n}",
            "updated_at": MS + n,
        }
        for n in range(COUNT)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    aged(path)
    return Made(path, {"task": 60, "note": 60}, {MS + n for n in range(COUNT)})


def markdown(folder: Path) -> Made:
    for n in range(COUNT):
        path = folder / "notes" / f"{n % 7}" / f"n{n}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# Note {n}\n\ntext")
        aged(path)
    return Made(folder / "notes", {"note": COUNT}, None)


def claude_code(folder: Path) -> Made:
    for n in range(COUNT):
        path = folder / "projects" / f"-home-p{n % 5}" / f"{n:08x}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text(SESSION) + '{"type":"user","message":{"con')  # it is being written
        aged(path)
    return Made(folder / "projects", {"session": COUNT}, {AT_MS + 7_000})


def open_walnut(folder: Path) -> Made:
    path = folder / "search.sqlite"
    connection = database(path, WALNUT)
    kinds = ("task", "session", "note", "memory", "skill")
    for n in range(COUNT):
        values = {"title": f"t {n}", "summary": "", "note": "n", "meta": "", "updated_at": MS + n}
        add(connection, "doc", kind=kinds[n % 5], ref=f"r{n}", **values)
    connection.close()
    aged(path)
    return Made(path, dict.fromkeys(kinds, COUNT // 5), {MS + n for n in range(COUNT)})


def agentkits(folder: Path) -> Made:
    path = folder / "memory.db"
    connection = database(path, AGENTKITS)
    for n in range(COUNT):
        values = {
            "content": "c",
            "embedding": b"\x01" * 384,
            "created_at": MS,
            "updated_at": MS + n,
        }
        add(connection, "memory_entries", id=f"m{n}", key=f"k{n}", **values)
        if n % 4 == 0:
            add(connection, "sessions", session_id=f"s{n}", prompt="p", started_at=MS + n)
            add(connection, "observations", id=f"o{n}", title="t", timestamp=MS + n)
    connection.close()
    return Made(
        path,
        {"memory": COUNT, "session": COUNT // 4, "observation": COUNT // 4},
        {MS + n for n in range(COUNT)},
    )


@pytest.mark.parametrize("make", [ndjson, markdown, claude_code, open_walnut, agentkits])
def test_all_arrives_once_with_its_kind_and_time_and_stays(
    make: Callable[[Path], Made], hosted: Hosted, machine: Machine, tmp_path: Path
) -> None:
    made = make(tmp_path)
    kind = guess(made.path, Settings())
    assert kind == make.__name__.replace("_", "-")
    source = open_source(kind, made.path, made.path.name, machine.settings)
    plan, report = machine.sync(source)
    held = hosted.documents()
    assert Counter(kind for kind, _ in held) == made.kinds
    assert report.counts == {"created": len(held)}
    if made.times is not None:
        assert {document.updated_at for document in held.values()} == made.times
    plan, report = machine.sync(source)
    assert (plan.documents, report.counts) == (len(held), {})
    machine.state.unlink()
    plan, report = machine.sync(source)
    assert (plan.documents, report.counts) == (len(held), {}), "its ids are the same each time"
    assert hosted.documents() == held


def test_a_database_that_is_locked_deletes_nothing(hosted: Hosted, tmp_path: Path) -> None:
    machine = Machine(hosted, tmp_path / "machine", sync_busy_ms=20)
    path = tmp_path / "search.sqlite"
    connection = apsw.Connection(str(path))
    connection.execute(WALNUT)
    add(connection, "doc", kind="note", ref="a", title="t", updated_at=MS)
    source = open_source("open-walnut", path, "walnut", machine.settings)
    machine.sync(source)
    connection.execute("BEGIN EXCLUSIVE")
    connection.execute("DELETE FROM doc")
    plan, report = machine.sync(source, yes=False)
    assert [each.reason for each in plan.skipped] == ["locked by another program for too long"]
    assert report.counts == {}
    connection.execute("ROLLBACK")
    connection.close()
    assert len(hosted.documents()) == 1
