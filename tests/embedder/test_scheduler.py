from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError

import pytest

from embedder.errors import Draining, Expired, InferenceFailed, QueueFull
from embedder.limits import Limits
from embedder.scheduler import Kind, Scheduler
from embedder.tokens import Tokens

WAIT_S = 10.0


def text(length: int, mark: int = 0) -> Tokens:
    return Tokens(array("q", [mark] * length), False)


class Runs:
    """A model under the test's control: each run waits for a permit, then answers its lengths."""

    def __init__(self) -> None:
        self.permits = threading.Semaphore(0)
        self.begun: list[list[tuple[int, int]]] = []
        self._changed = threading.Condition()

    def __call__(self, batch: Sequence[Tokens]) -> list[bytes]:
        with self._changed:
            self.begun.append([(len(tokens), tokens.ids[0]) for tokens in batch])
            self._changed.notify_all()
        assert self.permits.acquire(timeout=WAIT_S)
        if any(tokens.ids[0] == -1 for tokens in batch):
            raise ValueError
        return [bytes([len(tokens)]) for tokens in batch]

    def wait_begun(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.begun) >= count, WAIT_S)

    def marks(self) -> list[list[int]]:
        return [[mark for _, mark in run] for run in self.begun]


@pytest.fixture
def runs() -> Runs:
    return Runs()


@pytest.fixture
def scheduler(runs: Runs) -> Iterator[Scheduler]:
    made = Scheduler(runs, Limits(queries=6, passages=6, query_batch=3))
    yield made
    for _ in range(100):
        runs.permits.release()
    assert made.drain(WAIT_S)


def test_a_query_does_not_wait_for_a_passage_in_progress(scheduler: Scheduler, runs: Runs) -> None:
    [passage] = scheduler.submit(Kind.PASSAGE, [text(9, 1)])
    runs.wait_begun(1)
    [query] = scheduler.submit(Kind.QUERY, [text(3, 2)])
    runs.wait_begun(2)  # while the passage still runs
    assert not passage.done()
    runs.permits.release()
    runs.permits.release()
    assert (query.result(WAIT_S), passage.result(WAIT_S)) == (b"\x03", b"\x09")


def test_no_passage_begins_while_a_query_waits(scheduler: Scheduler, runs: Runs) -> None:
    scheduler.submit(Kind.QUERY, [text(3, 1)])
    runs.wait_begun(1)
    waiting = [scheduler.submit(Kind.QUERY, [text(n, n)])[0] for n in (60, 5)]  # no mates
    [passage] = scheduler.submit(Kind.PASSAGE, [text(9, 99)])
    runs.permits.release()
    runs.wait_begun(2)
    assert runs.marks() == [[1], [60]]  # one query runs, one waits: the passage does too
    runs.permits.release()
    waiting[0].result(WAIT_S)
    runs.wait_begun(4)
    for _ in range(2):
        runs.permits.release()
    passage.result(WAIT_S)
    assert sorted(runs.marks()[2:]) == [[5], [99]]


def test_queries_of_like_length_share_a_run(scheduler: Scheduler, runs: Runs) -> None:
    scheduler.submit(Kind.QUERY, [text(3, 0)])
    runs.wait_begun(1)
    lengths = {1: 20, 2: 90, 3: 19, 4: 21, 5: 20}
    waiting = [scheduler.submit(Kind.QUERY, [text(size, n)])[0] for n, size in lengths.items()]
    for _ in range(4):
        runs.permits.release()
    answers = [future.result(WAIT_S)[0] for future in waiting]
    assert answers == list(lengths.values())
    assert runs.marks()[1] == [1, 5, 3]  # three at most, nearest first; never the one of 90
    assert sorted(runs.marks()[2:]) == [[2], [4]]


def test_a_model_whose_texts_must_not_mix_runs_them_alone(runs: Runs) -> None:
    scheduler = Scheduler(runs, Limits(query_batch=8, passage_batch=8), alone=True)
    futures = scheduler.submit(Kind.PASSAGE, [text(4, n) for n in range(3)])
    for _ in futures:
        runs.permits.release()
    assert [future.result(WAIT_S) for future in futures] == [b"\x04"] * 3
    assert runs.marks() == [[0], [1], [2]]
    assert scheduler.drain(WAIT_S)


def test_expired_before_queueing_never_runs(scheduler: Scheduler, runs: Runs) -> None:
    with pytest.raises(Expired):
        scheduler.submit(Kind.QUERY, [text(3)], deadline=time.monotonic() - 0.001)
    assert runs.begun == []


def test_expired_in_the_queue_never_runs(scheduler: Scheduler, runs: Runs) -> None:
    scheduler.submit(Kind.QUERY, [text(3, 1)])
    runs.wait_begun(1)
    deadline = time.monotonic() + 0.01
    [late] = scheduler.submit(Kind.QUERY, [text(3, 2)], deadline=deadline)
    while time.monotonic() < deadline:
        time.sleep(0.001)
    runs.permits.release()
    with pytest.raises(Expired):
        late.result(WAIT_S)
    assert runs.marks() == [[1]]


def test_cancelled_in_the_queue_never_runs(scheduler: Scheduler, runs: Runs) -> None:
    scheduler.submit(Kind.PASSAGE, [text(3, 1)])
    runs.wait_begun(1)
    [gone, stays] = scheduler.submit(Kind.PASSAGE, [text(3, 2), text(3, 3)])
    assert gone.cancel()
    runs.permits.release()
    runs.permits.release()
    assert stays.result(WAIT_S) == b"\x03"
    with pytest.raises(CancelledError):
        gone.result(WAIT_S)
    assert runs.marks() == [[1], [3]]


def test_a_full_queue_takes_all_of_a_request_or_nothing(scheduler: Scheduler, runs: Runs) -> None:
    scheduler.submit(Kind.PASSAGE, [text(3)])
    runs.wait_begun(1)
    scheduler.submit(Kind.PASSAGE, [text(3)] * 4)
    with pytest.raises(QueueFull, match="4 of 6 places of the passage queue"):
        scheduler.submit(Kind.PASSAGE, [text(3)] * 3)
    assert scheduler.queued(Kind.PASSAGE) == 4
    scheduler.submit(Kind.PASSAGE, [text(3)] * 2)
    scheduler.submit(Kind.QUERY, [text(3)])  # queries have room of their own


def test_those_whom_nobody_waits_for_make_room(scheduler: Scheduler, runs: Runs) -> None:
    scheduler.submit(Kind.PASSAGE, [text(3)])
    runs.wait_begun(1)
    for future in scheduler.submit(Kind.PASSAGE, [text(3)] * 6):
        future.cancel()
    scheduler.submit(Kind.PASSAGE, [text(3)] * 6)
    assert scheduler.queued(Kind.PASSAGE) == 6


def test_a_run_that_fails_fails_its_texts_and_the_lane_goes_on(
    scheduler: Scheduler, runs: Runs
) -> None:
    [bad] = scheduler.submit(Kind.QUERY, [text(3, -1)])
    runs.wait_begun(1)
    [good] = scheduler.submit(Kind.QUERY, [text(4, 1)])
    runs.permits.release()
    runs.permits.release()
    with pytest.raises(InferenceFailed, match="ValueError"):
        bad.result(WAIT_S)
    assert good.result(WAIT_S) == b"\x04"


def test_draining_finishes_queries_and_refuses_passages_that_wait(runs: Runs) -> None:
    scheduler = Scheduler(runs, Limits(query_batch=1))
    [running] = scheduler.submit(Kind.PASSAGE, [text(3, 1)])
    runs.wait_begun(1)
    [refused] = scheduler.submit(Kind.PASSAGE, [text(3, 2)])
    queries = [scheduler.submit(Kind.QUERY, [text(5, n)])[0] for n in (3, 4)]
    draining = threading.Thread(target=scheduler.drain, args=(WAIT_S,))
    draining.start()
    with pytest.raises(Draining):
        refused.result(WAIT_S)
    with pytest.raises(Draining):
        scheduler.submit(Kind.QUERY, [text(3)])
    for _ in range(3):
        runs.permits.release()
    assert running.result(WAIT_S) == b"\x03"
    assert [query.result(WAIT_S) for query in queries] == [b"\x05"] * 2
    draining.join(WAIT_S)
    assert not draining.is_alive()
