"""One machine: what is sent, what is deleted, what is left alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import memlane
from service.errors import Conflict, SetupError
from service.sources.claude_code import ClaudeCode
from service.sources.markdown import Markdown
from service.sources.ndjson import Ndjson
from service.sources.state import State
from service.sources.sync import SourceShrunk, Sync
from tests.sources.world import DAY_MS, Hosted, Machine

Write = Callable[..., Path]


def row(ref: str, title: str = "t", at: int | None = DAY_MS, **more: Any) -> dict[str, Any]:
    time = {} if at is None else {"updated_at": at}
    return {"kind": "note", "ref": ref, "title": title, **time, **more}


def ndjson(write: Write, *rows: dict[str, Any], ago_s: float = 100) -> Any:
    text = "".join(json.dumps(each, ensure_ascii=False) + "\n" for each in rows)
    return lambda machine: Ndjson(write("memory.ndjson", text, ago_s=ago_s), machine.settings)


def refs(hosted: Hosted) -> dict[str, str]:
    return {ref: document.title for (_, ref), document in hosted.documents().items()}


def test_only_what_differs_travels(hosted: Hosted, machine: Machine, write: Write) -> None:
    rows = [row(f"n{number}", "x" * 500) for number in range(1_500)]
    _, first = machine.sync(ndjson(write, *rows)(machine))
    assert first.counts == {"created": 1_500}
    assert machine.bytes_sent > 1_500 * 500

    _, again = machine.sync(ndjson(write, *rows)(machine))
    assert again.counts == {}
    assert machine.requests == 1
    assert machine.bytes_sent < 1_000

    rows[3] = row("n3", "changed", DAY_MS + 1)
    _, changed = machine.sync(ndjson(write, *rows[:-1], ago_s=90)(machine))
    assert changed.counts == {"updated": 1, "deleted": 1}
    assert machine.bytes_sent < 3_000
    assert refs(hosted) == {each["ref"]: each["title"] for each in rows[:-1]}


def test_a_file_written_just_now_is_read_again(machine: Machine, write: Write) -> None:
    machine.sync(ndjson(write, row("a", "one"), ago_s=0)(machine))
    _, report = machine.sync(ndjson(write, row("a", "two"), ago_s=0)(machine))
    assert report.counts == {"updated": 1}


def test_an_unchanged_file_is_not_read_again_even_if_it_holds_nothing(
    machine: Machine, write: Write, tmp_path: Path
) -> None:
    write("notes/a.md", "# A")
    write("projects/empty.jsonl", "{}\n")
    for source in (
        Markdown(tmp_path / "notes", "notes", machine.settings),
        ClaudeCode(tmp_path / "projects", machine.settings),
    ):
        machine.state.unlink(missing_ok=True)
        machine.sync(source)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(type(source), "read", lambda *_: 1 / 0)
            for _ in range(3):
                machine.sync(source)


def test_a_dry_run_sends_nothing_and_remembers_nothing(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    machine.sync(ndjson(write, row("a"), row("b"))(machine))
    source = ndjson(write, row("b", "new", DAY_MS + 1), row("c"), ago_s=90)(machine)
    for _ in range(2):
        plan = machine.plan(source)
        assert (plan.documents, plan.to_send, plan.to_delete) == (2, 2, 1)
    assert refs(hosted) == {"a": "t", "b": "t"}


def test_without_its_state_a_machine_sends_and_deletes_nothing_of_what_is_there(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    machine.sync(ndjson(write, row("a"), row("b", at=None))(machine))
    machine.state.unlink()
    plan, report = machine.sync(ndjson(write, row("b", at=None))(machine))
    assert report.counts == {}
    assert plan.to_delete == 0
    assert set(refs(hosted)) == {"a", "b"}


def test_what_others_sent_is_not_deleted(hosted: Hosted, machine: Machine, write: Write) -> None:
    with hosted.client() as client:
        client.batch([{"kind": "note", "ref": "theirs", "title": "x"}])
    machine.sync(ndjson(write, row("mine"))(machine))
    machine.sync(ndjson(write, row("other"), ago_s=90)(machine))
    assert set(refs(hosted)) == {"theirs", "other"}


def test_what_the_service_lost_is_sent_again(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    """As after an operator restored the tenant to an earlier moment."""
    source = ndjson(write, row("a"), row("b"))
    machine.sync(source(machine))
    file = hosted.files.path(hosted.tenant.file)
    for path in file.parent.glob(f"{file.name}*"):
        path.unlink()
    _, report = machine.sync(source(machine))
    assert report.counts == {"created": 2}


def test_what_somebody_deleted_stays_deleted(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    source = ndjson(write, row("a"), row("b"))
    machine.sync(source(machine))
    with hosted.client() as client:
        client.batch([{"op": "delete", "kind": "note", "ref": "a"}])
    plan, report = machine.sync(source(machine))
    assert report.counts == {"older": 1}
    plan, report = machine.sync(source(machine))
    assert report.counts == {}
    assert plan.outvoted == 1
    machine.sync(ndjson(write, row("a", "edited since", DAY_MS + 5), row("b"), ago_s=80)(machine))
    assert refs(hosted) == {"a": "edited since", "b": "t"}


def test_a_document_that_comes_back_is_there_again_though_its_time_is_old(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    machine.sync(ndjson(write, row("a"), row("b"))(machine))
    machine.sync(ndjson(write, row("b"), ago_s=90)(machine))
    assert set(refs(hosted)) == {"b"}
    _, report = machine.sync(ndjson(write, row("a"), row("b"), ago_s=80)(machine))
    assert report.counts == {"created": 1}
    _, report = machine.sync(ndjson(write, row("a"), row("b"), ago_s=70)(machine))
    assert report.counts == {}


def test_an_older_version_put_back_here_wins_over_what_it_replaced_here(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    machine.sync(ndjson(write, row("a", "new", DAY_MS + 9))(machine))
    machine.sync(ndjson(write, row("a", "from the backup", DAY_MS), ago_s=90)(machine))
    assert refs(hosted) == {"a": "from the backup"}


def test_an_emptied_source_and_one_that_lost_most_ask_first(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    machine.sync(ndjson(write, *[row(f"n{n}") for n in range(20)])(machine))
    for left in (0, 1, 2):
        source = ndjson(write, *[row(f"n{n}") for n in range(left)], ago_s=90 - left)(machine)
        with pytest.raises(SourceShrunk, match=f"{left} documents left of 20"):
            machine.sync(source, yes=False)
    assert len(refs(hosted)) == 20
    machine.sync(ndjson(write, *[row(f"n{n}") for n in range(3)], ago_s=50)(machine), yes=False)
    assert set(refs(hosted)) == {"n0", "n1", "n2"}


def test_a_source_that_is_not_there_deletes_nothing(
    hosted: Hosted, machine: Machine, write: Write, tmp_path: Path
) -> None:
    write("notes/a.md", "# A")
    source = Markdown(tmp_path / "notes", "notes", machine.settings)
    machine.sync(source)
    (tmp_path / "notes").rename(tmp_path / "elsewhere")
    with pytest.raises(SetupError, match="not a folder"):
        machine.sync(source)
    assert set(refs(hosted)) == {"notes/a.md"}


def test_what_cannot_be_read_is_told_and_not_deleted(
    hosted: Hosted, machine: Machine, write: Write, tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        write(f"notes/{name}.md", f"# {name}")
    source = Markdown(tmp_path / "notes", "notes", machine.settings)
    machine.sync(source)
    write("notes/a.md", b"\xff\xfe broken", ago_s=50)
    (tmp_path / "notes/b.md").unlink()
    plan, report = machine.sync(source)
    assert [(each.unit, each.reason) for each in plan.skipped] == [("a.md", "not UTF-8")]
    assert report.counts == {"deleted": 1}
    assert set(refs(hosted)) == {"notes/a.md", "notes/c.md"}


def test_what_the_service_refuses_is_told_once_sent_once_and_hinders_nothing(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    source = ndjson(write, row("far", at=DAY_MS * 36_500), row("good"))
    plan, report = machine.sync(source(machine))
    assert report.counts == {"refused": 1, "created": 1}
    assert [(each["ref"], "future" in each["error"]) for each in report.refusals] == [("far", True)]
    plan, report = machine.sync(source(machine))
    assert (plan.refused, report.counts) == (1, {})


def test_a_run_that_ends_between_two_batches_is_gone_on_with(
    hosted: Hosted, write: Write, tmp_path: Path
) -> None:
    machine = Machine(hosted, tmp_path / "m", sync_batch_lines=10)
    source = ndjson(write, *[row(f"n{n}") for n in range(35)])(machine)
    real = memlane.Client.batch
    calls = 0

    def cut_off(self: memlane.Client, *args: Any, **more: Any) -> Any:
        nonlocal calls
        calls += 1
        told = real(self, *args, **more)
        if calls == 2:  # it was taken, and nobody heard
            raise memlane.Unreachable("gone")
        return told

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(memlane.Client, "batch", cut_off)
        with pytest.raises(memlane.Unreachable):
            machine.sync(source)
    assert len(refs(hosted)) == 20
    _, report = machine.sync(source)
    assert report.counts == {"created": 15}
    assert len(refs(hosted)) == 35


def test_a_document_sent_by_a_run_that_was_cut_off_can_be_deleted_by_the_next(
    hosted: Hosted, machine: Machine, write: Write
) -> None:
    source = ndjson(write, row("a"), row("b"))(machine)
    with hosted.client() as client, State(machine.state, "one") as state:
        syncing = Sync(source, client, state, machine.settings)
        syncing.plan(client.manifest())
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(State, "settle", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                syncing.carry_out(syncing.plan(client.manifest()))
    assert set(refs(hosted)) == {"a", "b"}
    machine.sync(ndjson(write, row("b"), ago_s=90)(machine))
    assert set(refs(hosted)) == {"b"}


def test_a_state_serves_one_source_and_one_run(machine: Machine) -> None:
    with (
        State(machine.state, "one"),
        pytest.raises(Conflict, match="runs now"),
    ):
        State(machine.state, "one")
    with pytest.raises(SetupError, match="another source"):
        State(machine.state, "two")
