"""A node's own figures: what workers write is what is read."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.operator import summary
from service.semantic.state import LEGAL_PAIRS, SemanticOutcome, SemanticReason, SemanticState
from service.settings import Settings
from service.telemetry import figures_cells as cells
from service.telemetry import figures_store
from service.telemetry.figures import Figures
from service.telemetry.figures_read import OTHERS_NAME, FiguresReader, Window
from service.telemetry.figures_store import FiguresStore
from service.telemetry.stories import Searched

NOW_MS = 1_790_000_000_000
MINUTE_MS = 60_000
OK = SemanticOutcome(SemanticState.OK, coverage=1.0, model="tiny@1")
LOST = SemanticOutcome(SemanticState.TIMEOUT, SemanticReason.DEADLINE)
OFF = SemanticOutcome(SemanticState.DISABLED, SemanticReason.NO_SIDECAR)


def one(
    tenant: str = "acme",
    outcome: SemanticOutcome = OK,
    *,
    at_ms: int = NOW_MS,
    total_ms: float = 10.0,
    age_ms: int = 100,
    request_id: str = "r",
) -> Searched:
    return Searched(
        id=request_id,
        at_ms=at_ms,
        tenant=tenant,
        outcome=outcome,
        took_ms={"lanes": total_ms / 2, "total": total_ms},
        begin_ms=0.5,
        temperature="hot",
        version=3,
        documents=40,
        age_ms=age_ms,
        cpu_ms=2.0,
    )


def figures(folder: Path, at_ms: int = NOW_MS, **limits: int) -> Figures:
    limits = {"figures_flush_ms": 60_000} | limits  # only when told
    return Figures(folder, "reader", Settings(**limits), clock_ms=lambda: at_ms)


def read(folder: Path, minutes: int = 60, now_ms: int = NOW_MS) -> tuple[FiguresReader, Window]:
    return FiguresReader(folder / "figures.sqlite"), Window.of(now_ms, minutes)


def test_searches_are_summed_by_minute_tenant_and_state(tmp_path: Path) -> None:
    with figures(tmp_path) as worker:
        for _ in range(3):
            worker.searched(one())
        worker.searched(one(outcome=LOST, at_ms=NOW_MS - 5 * MINUTE_MS, age_ms=7_000))
        worker.searched(one("other", OFF))
    reader, window = read(tmp_path)
    series = reader.node(window)
    assert summary.states(series.total) == {
        "ok": 3,
        "timeout/deadline": 1,
        "disabled/no_sidecar": 1,
    }
    busy = [cells.searches(bucket.counts) for bucket in series.buckets]
    assert sum(busy) == 5
    assert busy[-1] == 4
    assert busy[-6] == 1
    tenants = reader.tenants(window)
    assert {name: cells.searches(found.counts) for name, found in tenants.items()} == {
        "acme": 4,
        "other": 1,
    }
    row = summary.row("acme", tenants["acme"])
    assert (row["lost_share"], row["cpu_s"], row["age_ms"]) == (0.25, 0.008, 7_000)
    assert (row["documents"], row["version"]) == (40, 3)
    found = reader.tenant(window, "acme")
    assert found is not None
    assert summary.states(found.total) == {"ok": 3, "timeout/deadline": 1}
    assert reader.tenant(window, "nobody") is None


def work(folder: Path, count: int) -> None:
    with figures(folder) as worker:
        for _ in range(count):
            worker.searched(one())


def work_until_killed(folder: Path, told: int) -> None:
    worker = figures(folder).__enter__()
    for _ in range(told):
        worker.searched(one())
    worker.flush()
    worker.searched(one())  # never written
    os.kill(os.getpid(), signal.SIGKILL)


def test_workers_add_to_the_same_sums_and_a_killed_one_loses_what_it_had_not_written(
    tmp_path: Path,
) -> None:
    fork = multiprocessing.get_context("spawn")
    workers = [fork.Process(target=work, args=(tmp_path, 50)) for _ in range(2)]
    workers.append(fork.Process(target=work_until_killed, args=(tmp_path, 7)))
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    reader, window = read(tmp_path)
    assert cells.searches(reader.node(window).total.counts) == 107


def test_a_day_is_read_from_sums_of_hours_and_says_the_same(tmp_path: Path) -> None:
    hours = 24
    for hour in range(hours):
        at_ms = NOW_MS - (hours - 1 - hour) * 3_600_000
        with figures(tmp_path, at_ms) as worker:
            for tenant in ("acme", "other"):
                worker.searched(one(tenant, at_ms=at_ms))
            worker.searched(one("acme", LOST, at_ms=at_ms - 50 * MINUTE_MS))
    reader, window = read(tmp_path, 1_440)
    summed = {name: cells.searches(found.counts) for name, found in reader.tenants(window).items()}
    by_tenant = {name: reader.tenant(window, name) for name in summed}
    assert summed == {
        name: cells.searches(found.total.counts) for name, found in by_tenant.items() if found
    }
    assert summed["acme"] == 48
    assert len(reader.node(window).buckets) <= 96


def test_tenants_beyond_the_limit_are_summed_as_one(tmp_path: Path) -> None:
    with figures(tmp_path, figures_tenants=3) as worker:
        for number in range(10):
            worker.searched(one(f"t{number}"))
    reader, window = read(tmp_path)
    tenants = reader.tenants(window)
    assert set(tenants) == {"t0", "t1", "t2", OTHERS_NAME}
    assert cells.searches(tenants[OTHERS_NAME].counts) == 7
    assert cells.searches(reader.node(window).total.counts) == 10


def test_what_is_too_old_or_too_much_is_forgotten(tmp_path: Path) -> None:
    limits = {"figures_minutes": 120, "figures_bytes": 1 << 20}
    for hour in range(4):
        at_ms = NOW_MS + hour * 3_600_000
        with figures(tmp_path, at_ms, **limits) as worker:
            for number in range(1_500):
                worker.searched(one(f"tenant-{number:05}-{'x' * 40}", at_ms=at_ms))
    now_ms = NOW_MS + 3 * 3_600_000
    with FiguresStore(tmp_path / "figures.sqlite") as store:
        oldest: Any = store.connection.execute("SELECT min(at) FROM minutes").get
        assert oldest >= now_ms // MINUTE_MS - 120
        assert store._used_bytes() < 2 << 20


def test_searches_that_cannot_wait_are_lost_and_counted(tmp_path: Path) -> None:
    with figures(tmp_path, figures_waiting=5) as worker:
        for _ in range(8):
            worker.searched(one())
    reader, window = read(tmp_path)
    assert cells.searches(reader.node(window).total.counts) == 5
    assert reader.lost() == 3


def test_a_damaged_file_is_begun_anew_and_the_worker_goes_on(tmp_path: Path) -> None:
    with figures(tmp_path) as worker:
        worker.searched(one())
    (tmp_path / "figures.sqlite").write_bytes(b"no database at all" * 1_000)
    with figures(tmp_path) as worker:
        worker.searched(one("later"))
    reader, window = read(tmp_path)
    assert set(reader.tenants(window)) == {"later"}


def test_workers_that_start_at_the_same_moment_all_get_the_file(tmp_path: Path) -> None:
    workers = 4
    together = threading.Barrier(workers)

    def begin(folder: Path) -> None:
        together.wait()
        FiguresStore(folder / "figures.sqlite").connection.close()

    with ThreadPoolExecutor(workers) as pool:
        for round_ in range(25):  # without waiting about every second round failed
            begun = [pool.submit(begin, tmp_path / str(round_)) for _ in range(workers)]
            for worker in begun:
                worker.result(30)


def test_a_file_that_stays_locked_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures_store, "BUSY_TIMEOUT_MS", 50)
    path = tmp_path / "figures.sqlite"
    with FiguresStore(path) as store:
        store.connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(apsw.BusyError):
            FiguresStore(path)


def test_nothing_asked_is_nothing_told(tmp_path: Path) -> None:
    reader, window = read(tmp_path)
    told = summary.numbers(reader.node(window).total)
    assert told["searches"] == 0
    assert told["lost_share"] is None
    assert told["latency_ms"]["total"] == {"n": 0, "p50": None, "p95": None, "p99": None}
    assert reader.tenants(window) == {}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.11, 90_000), min_size=1, max_size=300), st.sampled_from([0.5, 0.99]))
def test_a_percentile_is_within_a_bucket_of_the_exact_one(
    values: list[float], share: float
) -> None:
    counts = np.zeros(cells.CELLS, np.int64)
    for value in values:
        np.add.at(counts, cells.cells_of(("ok", ""), "hot", {"total": value}, 0), 1)
    exact = sorted(values)[max(0, int(np.ceil(share * len(values))) - 1)]
    told = cells.percentile_ms(cells.histogram(counts, "total"), share)
    assert told is not None
    assert exact / 1.6 <= told <= exact * 1.6


@given(st.lists(st.integers(0, 2**40), min_size=cells.CELLS, max_size=cells.CELLS))
@settings(max_examples=20, deadline=None)
def test_a_row_on_disk_is_the_row(values: list[int]) -> None:
    counts = np.array(values, np.int64)
    assert (cells.decode(cells.encode(counts)) == counts).all()


def test_every_legal_state_has_a_cell_of_its_own() -> None:
    found = {
        tuple(cells.cells_of((state.value, reason.value if reason else ""), "hot", {}, 0)[:1])
        for state, reason in LEGAL_PAIRS
    }
    assert len(found) == len(LEGAL_PAIRS)


@pytest.mark.parametrize(
    ("outcomes", "share"),
    [
        ([OK, OK, OK, LOST], 0.25),
        ([OFF, OFF], None),
        ([OK, SemanticOutcome(SemanticState.SKIPPED, SemanticReason.REQUESTED)], 0.0),
        ([SemanticOutcome(SemanticState.SKIPPED, SemanticReason.CIRCUIT_OPEN)], 1.0),
    ],
)
def test_the_lost_share_is_of_those_that_wanted_vectors(
    tmp_path: Path, outcomes: list[SemanticOutcome], share: float | None
) -> None:
    with figures(tmp_path) as worker:
        for outcome in outcomes:
            worker.searched(one(outcome=outcome))
    reader, window = read(tmp_path)
    assert summary.lost_share(reader.node(window).total) == share


def test_a_search_is_seen_a_moment_later_without_being_told_to(tmp_path: Path) -> None:
    with Figures(tmp_path, "reader", Settings(figures_flush_ms=20)) as worker:
        worker.searched(one(at_ms=int(time.time() * 1_000)))
        reader, window = read(tmp_path, now_ms=int(time.time() * 1_000))
        deadline = time.monotonic() + 20
        while not cells.searches(reader.node(window).total.counts):
            assert time.monotonic() < deadline
            time.sleep(0.01)
