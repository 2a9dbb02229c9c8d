from __future__ import annotations

import json
import multiprocessing
import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from service.errors import SetupError
from service.semantic.state import LEGAL_PAIRS, NO_SIDECAR, SemanticOutcome
from service.telemetry import states
from service.telemetry.states import StateCounter, read_totals

DISABLED = ("reader", "disabled", "no_sidecar")


def outcomes() -> list[SemanticOutcome]:
    return [
        SemanticOutcome(state, reason, coverage=1.0 if reason is None else None)
        for state, reason in LEGAL_PAIRS
    ]


def test_each_outcome_has_its_own_cell(tmp_path: Path) -> None:
    with StateCounter(tmp_path, role="reader") as counter:
        for times, outcome in enumerate(outcomes(), start=1):
            for _ in range(times):
                counter.count(outcome)
        totals = counter.totals()
    assert list(totals.values()) == list(range(1, len(LEGAL_PAIRS) + 1))
    assert totals["reader", "ok", ""] == 1
    assert totals["reader", "cold", "backfill_pending"] == 2


def test_two_at_once_take_two_slots_and_the_next_one_goes_on_with_a_free_one(
    tmp_path: Path,
) -> None:
    first, second = StateCounter(tmp_path, role="reader"), StateCounter(tmp_path, role="writer")
    first.count(NO_SIDECAR)
    second.count(NO_SIDECAR)
    first.close()
    with StateCounter(tmp_path, role="reader") as third:
        third.count(NO_SIDECAR)
        assert third.totals() == {DISABLED: 2, ("writer", "disabled", "no_sidecar"): 1}
    second.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["slot-000", "slot-001"]


def count_until_killed(folder: Path, started: Connection[int, None]) -> None:
    with StateCounter(folder, role="reader") as counter:
        for _ in range(1_000):
            counter.count(NO_SIDECAR)
        started.send(os.getpid())
        started.recv()  # never answered: this process is killed here


def test_counts_of_killed_workers_stay_and_their_slots_are_taken_over(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    for _ in range(2):
        workers = []
        for _ in range(2):
            ours, theirs = context.Pipe()
            worker = context.Process(target=count_until_killed, args=(tmp_path, theirs))
            worker.start()
            workers.append((worker, ours))
        for worker, ours in workers:
            assert ours.recv() == worker.pid
        for worker, _ in workers:
            assert worker.pid is not None
            os.kill(worker.pid, signal.SIGKILL)
            worker.join()
    assert read_totals(tmp_path) == {DISABLED: 4_000}
    assert len(list(tmp_path.iterdir())) == 2


def test_counts_of_a_release_with_other_states_are_kept_and_read_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with StateCounter(tmp_path, role="reader") as counter:
        counter.count(NO_SIDECAR)
    monkeypatch.setattr(states, "CELLS", (("reader", "new", "state"), *states.CELLS))
    monkeypatch.setattr(states, "_FILE_BYTES", states._FILE_BYTES + 8)
    with StateCounter(tmp_path, role="reader") as counter:
        counter.count(NO_SIDECAR)
        assert counter.totals() == {DISABLED: 2}
    assert len(list(tmp_path.iterdir())) == 2


def test_the_file_says_what_its_numbers_mean(tmp_path: Path) -> None:
    with StateCounter(tmp_path, role="reader") as counter:
        counter.count(NO_SIDECAR)
    raw = (tmp_path / "slot-000").read_bytes()
    names = [tuple(name) for name in json.loads(raw[8:4_096])]
    cell = 4_096 + 8 * names.index(DISABLED)
    assert int.from_bytes(raw[cell : cell + 8], "little") == 1
    assert sum(raw[4_096:]) == 1


def test_too_many_workers_or_an_unusable_folder_stop_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(states, "SLOTS", 1)
    with (
        StateCounter(tmp_path / "counters", role="reader"),
        pytest.raises(SetupError, match="all 1 counter slots"),
    ):
        StateCounter(tmp_path / "counters", role="reader")
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match="cannot be used"):
        StateCounter(tmp_path / "file", role="reader")
    with pytest.raises(SetupError, match="no role"):
        StateCounter(tmp_path, role="embedder")
