"""Who runs next: queries first, passages only when no query waits.

Two bounded queues and two kinds of lanes, each lane a thread that runs the model. A query never
waits for a passage in progress: passages have their own lanes, whose threads give way to everything
else on the machine (nice), and which begin nothing while a query waits. On a GPU, where one run
holds the device, a lane's batch is what a query may wait for; keep it small.

Texts of one run are padded to the longest, so a batch takes texts of similar length only.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum

from embedder.errors import Draining, EmbedderError, Expired, InferenceFailed, QueueFull
from embedder.limits import Limits
from embedder.tokens import Tokens

logger = logging.getLogger(__name__)

Run = Callable[[Sequence[Tokens]], list[bytes]]
Ran = Callable[[str, int, float, bool], None]
NICE = 19
"""The passage lanes' niceness; 19 leaves a core to anything else that wants it."""


class Kind(Enum):
    """What a text is to the caller."""

    QUERY = "query"
    PASSAGE = "passage"


class Embedded(Future[bytes]):
    """A vector on its way.

    Attributes:
        queued, begun, ended: when it was queued and when its run began and ended, on
            `time.monotonic()`'s clock; 0.0 while that has not happened.
    """

    def __init__(self) -> None:
        super().__init__()
        self.queued = time.monotonic()
        self.begun = 0.0
        self.ended = 0.0


@dataclass(eq=False, slots=True)
class _Job:
    tokens: Tokens
    deadline: float | None  # of time.monotonic()
    future: Embedded = field(default_factory=Embedded)

    def expired(self) -> bool:
        return self.deadline is not None and time.monotonic() >= self.deadline


class Scheduler:
    """Runs texts through a model in the right order. Safe to call from several threads."""

    def __init__(
        self,
        run: Run,
        limits: Limits,
        *,
        query_lanes: int = 1,
        passage_lanes: int = 1,
        alone: bool = False,
        ran: Ran = lambda *_: None,
    ) -> None:
        """Start the lanes.

        Args:
            run: the model; called from several threads at once.
            limits: queue and batch sizes.
            query_lanes: runs of queries at once.
            passage_lanes: runs of passages at once.
            alone: never put two texts into one run.
            ran: is told of every run: its kind, its texts, its seconds, whether it failed.
        """
        self._run = run
        self._ran = ran
        self._limits = limits
        self._sizes = {
            Kind.QUERY: 1 if alone else limits.query_batch,
            Kind.PASSAGE: 1 if alone else limits.passage_batch,
        }
        self._room = {Kind.QUERY: limits.queries, Kind.PASSAGE: limits.passages}
        self._waiting: dict[Kind, deque[_Job]] = {kind: deque() for kind in Kind}
        self._changed = threading.Condition()
        self._draining = False
        self._lanes = [
            threading.Thread(target=self._lane, args=(kind,), name=f"{kind.value}-{n}", daemon=True)
            for kind, count in ((Kind.QUERY, query_lanes), (Kind.PASSAGE, passage_lanes))
            for n in range(count)
        ]
        for lane in self._lanes:
            lane.start()

    def submit(
        self, kind: Kind, texts: Sequence[Tokens], *, deadline: float | None = None
    ) -> list[Embedded]:
        """Queue texts, all or none.

        Args:
            kind: which queue.
            texts: what to embed.
            deadline: on `time.monotonic()`'s clock; work not begun by then is dropped.

        Returns:
            A future for each. A cancelled one is dropped when its turn comes.

        Raises:
            Draining: the server is stopping.
            Expired: the deadline has passed.
            QueueFull: no room for all of them.
        """
        jobs = [_Job(tokens, deadline) for tokens in texts]
        if deadline is not None and time.monotonic() >= deadline:
            raise Expired("the deadline had passed when the request came")
        with self._changed:
            if self._draining:
                raise Draining("the server is stopping")
            waiting = self._waiting[kind]
            if len(waiting) + len(jobs) > self._room[kind]:
                self._drop_dead(waiting)
            if len(waiting) + len(jobs) > self._room[kind]:
                raise QueueFull(
                    f"{len(waiting)} of {self._room[kind]} places of the {kind.value} queue are"
                    f" taken"
                )
            waiting.extend(jobs)
            self._changed.notify_all()
        return [job.future for job in jobs]

    def queued(self, kind: Kind) -> int:
        """Texts that wait."""
        return len(self._waiting[kind])

    def drain(self, timeout_s: float) -> bool:
        """Take nothing new, finish queries and what runs, refuse the passages that wait.

        Returns:
            Whether all lanes ended in time.
        """
        with self._changed:
            self._draining = True
            refused = list(self._waiting[Kind.PASSAGE])
            self._waiting[Kind.PASSAGE].clear()
            self._changed.notify_all()
        for job in refused:
            if job.future.set_running_or_notify_cancel():
                job.future.set_exception(Draining("the server is stopping"))
        end = time.monotonic() + timeout_s
        for lane in self._lanes:
            lane.join(max(0.0, end - time.monotonic()))
        return not any(lane.is_alive() for lane in self._lanes)

    def _drop_dead(self, waiting: deque[_Job]) -> None:
        """Make room by forgetting those whom nobody waits for."""
        living = [job for job in waiting if not (job.future.cancelled() or job.expired())]
        for job in waiting:
            if job.expired() and job.future.set_running_or_notify_cancel():
                job.future.set_exception(Expired("the deadline passed in the queue"))
        waiting.clear()
        waiting.extend(living)

    def _lane(self, kind: Kind) -> None:
        if kind is Kind.PASSAGE:
            _give_way()
        while (batch := self._take(kind)) is not None:
            if batch:
                self._finish(kind, batch)

    def _take(self, kind: Kind) -> list[_Job] | None:
        """The next batch, perhaps empty; None when the lane should end."""
        with self._changed:
            while not self._ready(kind):
                if self._draining and not self._waiting[kind]:
                    return None
                self._changed.wait()
            waiting = self._waiting[kind]
            first = waiting.popleft()
            batch = [first]
            most = self._sizes[kind]
            if most > 1:
                batch += _mates(first, waiting, most - 1, self._limits.padding_share)
            self._changed.notify_all()
        return [job for job in batch if _wanted(job)]

    def _ready(self, kind: Kind) -> bool:
        if kind is Kind.PASSAGE and self._waiting[Kind.QUERY]:
            return False
        return bool(self._waiting[kind])

    def _finish(self, kind: Kind, batch: list[_Job]) -> None:
        failed, begun = True, time.monotonic()
        try:
            try:
                vectors = self._run([job.tokens for job in batch])
            finally:
                for job in batch:
                    job.future.begun, job.future.ended = begun, time.monotonic()
        except EmbedderError as error:
            logger.warning("a run of %d texts failed: %s", len(batch), error.detail)
            for job in batch:
                job.future.set_exception(error)
        except Exception as error:  # a lane that ended would stop its queue for good
            logger.exception("a run of %d texts failed", len(batch))
            for job in batch:
                job.future.set_exception(InferenceFailed(f"a run failed: {type(error).__name__}"))
        else:
            failed = False
            for job, vector in zip(batch, vectors, strict=True):
                job.future.set_result(vector)
        self._ran(kind.value, len(batch), time.monotonic() - begun, failed)


def _wanted(job: _Job) -> bool:
    """Whether anybody still waits for it."""
    if not job.future.set_running_or_notify_cancel():
        return False
    if job.expired():
        job.future.set_exception(Expired("the deadline passed in the queue"))
        return False
    return True


def _mates(first: _Job, waiting: deque[_Job], most: int, padding_share: float) -> list[_Job]:
    """Take the jobs nearest in length to the first, as long as padding stays within its share."""
    chosen: list[_Job] = []
    lengths = [len(first.tokens)]
    for job in sorted(waiting, key=lambda job: abs(len(job.tokens) - len(first.tokens))):
        longer = [*lengths, len(job.tokens)]
        positions = max(longer) * len(longer)
        if len(chosen) == most or positions - sum(longer) > padding_share * positions:
            break
        chosen.append(job)
        lengths = longer
    for job in chosen:
        waiting.remove(job)
    return chosen


def _give_way() -> None:
    """Lower this thread's priority; on Linux the call means the one thread."""
    try:
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
    except (AttributeError, OSError) as error:
        logger.warning("passages run at the queries' priority: %s", error)
