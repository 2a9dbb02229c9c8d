"""Filling one file: documents in, vectors out, whatever the sidecar makes of them.

What a request embedded is committed as soon as it is there, so a kill at any moment costs at most
the few requests under way; and a request is kept so short that this is little.
"""

from __future__ import annotations

import contextvars
import dataclasses
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, NamedTuple, Protocol

from service.index import passages
from service.index.passages import Passage
from service.index.vector_writer import Pending, VectorWriter
from service.semantic.flights import Failure
from service.semantic.sidecar import Info, SidecarError
from service.settings import Settings

#: Characters of one request that asks where to cut.
SPLIT_CHARS: Final = 1_000_000
#: The reason of a document in whose text the model's tokenizer finds nothing.
NO_PASSAGE: Final = "NO_PASSAGE"
COUNTED: Final = ("passages", "documents", "quarantined", "failed_requests", "models_adopted")


class Embedding(Protocol):
    """See `service.semantic.sidecar.Sidecar`."""

    def info(self) -> Info:
        """What is loaded."""

    def split(
        self, texts: Sequence[str], *, model: str, tokens_most: int, passages_most: int
    ) -> list[list[tuple[int, int]]]:
        """Where to cut."""

    def embed(self, texts: Sequence[str], *, model: str) -> list[bytes]:
        """A vector for each passage."""

    def close(self) -> None:
        """End calls under way."""


class VectorFiles(Protocol):
    """The tenants' files of this writer."""

    def own_files(self) -> list[str]:
        """Those that may be written now."""

    def vectors(self, file: str) -> AbstractContextManager[VectorWriter]:
        """A file's vectors, to be written in the block; what is committed there is published.

        Raises:
            MemlaneError: it may not be written now, or is gone.
        """


@dataclasses.dataclass(slots=True)
class _Work:
    """A document under way: what is cut and what is embedded of it, by seq."""

    pending: Pending
    cut: passages.Passages
    vectors: dict[int, bytes]

    @property
    def whole(self) -> bool:
        return len(self.vectors) == len(self.cut.passages)

    def rows(self, seqs: Sequence[int]) -> list[tuple[Passage, bytes]]:
        return [(self.cut.passages[seq], self.vectors[seq]) for seq in sorted(seqs)]


_Item = tuple[_Work, Passage]


class _Flight(NamedTuple):
    """A request under way: what for, since when, and what will come of it."""

    chunk: list[_Item]
    begun: float
    vectors: Future[list[bytes]]


class Filler:
    """Works on one file at a time; belongs to one thread.

    Attributes:
        counts: how many of `COUNTED` since the start.

    Args:
        files: what it works on.
        sidecar: what embeds.
        settings: the limits.
        stop: set when it is to end soon.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        files: VectorFiles,
        sidecar: Embedding,
        settings: Settings,
        *,
        stop: threading.Event,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.counts = Counter(dict.fromkeys(COUNTED, 0))
        self._files = files
        self._sidecar = sidecar
        self._settings = settings
        self._stop = stop
        self._clock = clock
        self._suspects: Counter[bytes] = Counter()
        self._passage_s = 0.0

    def advance(self, file: str, info: Info) -> bool:
        """Embed some of a file's documents; whether there may be more.

        Raises:
            MemlaneError: the file cannot be written now.
            SidecarError: the sidecar failed.
        """
        with self._files.vectors(file) as vectors:
            if vectors.adopt(info.model, info.dims):
                self.counts["models_adopted"] += 1
            found = vectors.pending(self._settings.backfill_documents)
        works = self._cut(file, found, info)
        self._finish(file, [work for work in works if work.whole])
        self._embed(file, [work for work in works if not work.whole], info)
        return len(found) == self._settings.backfill_documents

    # --- inside

    def _cut(self, file: str, found: Sequence[Pending], info: Info) -> list[_Work]:
        works = []
        for group in _groups(found):
            texts = [text[: passages.SOURCE_CHARS] for _, text in group]
            for (pending, text), spans in zip(group, self._split(texts, info), strict=True):
                cut = passages.cut(text, spans)
                known = {
                    p.seq: pending.known[p.text_hash]
                    for p in cut.passages
                    if p.text_hash in pending.known
                }
                works.append(_Work(pending, cut, known))
        with self._files.vectors(file) as vectors:
            for work in works:
                if not work.cut.passages:
                    self._give_up(vectors, work, NO_PASSAGE)
                elif work.pending.known and not work.whole:
                    vectors.arrange(work.pending, work.cut.passages)
        return [work for work in works if work.cut.passages]

    def _split(self, texts: list[str], info: Info) -> list[list[tuple[int, int]]]:
        return self._sidecar.split(
            texts,
            model=info.model,
            tokens_most=passages.PASSAGE_TOKENS,
            passages_most=passages.PASSAGES_MOST,
        )

    def _finish(self, file: str, works: Sequence[_Work]) -> None:
        """Documents whose passages all have their vectors from before."""
        if works:
            with self._files.vectors(file) as vectors:
                vectors.save([_all(work) for work in works])
            self.counts["documents"] += len(works)

    def _embed(self, file: str, works: Sequence[_Work], info: Info) -> None:
        """Embed what is missing, the digest of each document last.

        Several requests are under way at once, so that no core of the sidecar waits while vectors
        are written; they are written in the order of the queue.
        """
        queue = deque(
            (work, passage)
            for work in works
            for passage in (*work.cut.passages[1:], work.cut.passages[0])
            if passage.seq not in work.vectors
        )
        flights: deque[_Flight] = deque()
        with ThreadPoolExecutor(self._settings.backfill_requests) as pool:
            while (queue or flights) and not self._stop.is_set():
                # What cannot be embedded is found one request at a time.
                most = 1 if self._suspects else self._settings.backfill_requests
                while queue and len(flights) < most:
                    flights.append(self._launched(pool, queue, info))
                flight = flights.popleft()
                try:
                    found = flight.vectors.result()
                except SidecarError as error:
                    for later in reversed(flights):  # the order stays: they come again, after it
                        later.vectors.cancel()
                        queue.extendleft(reversed(later.chunk))
                    flights.clear()
                    queue = self._without(file, flight.chunk, queue, error)
                    continue
                self._landed(file, flight, found)

    def _launched(self, pool: ThreadPoolExecutor, queue: deque[_Item], info: Info) -> _Flight:
        size = min(self._size(queue), info.texts_most)
        chunk = [queue.popleft() for _ in range(min(size, len(queue)))]
        ask = partial(contextvars.copy_context().run, self._ask, chunk, info)
        return _Flight(chunk, self._clock(), pool.submit(ask))

    def _landed(self, file: str, flight: _Flight, found: list[bytes]) -> None:
        """The vectors of a request are here."""
        chunk, took_s = flight.chunk, self._clock() - flight.begun
        for (work, passage), vector in zip(chunk, found, strict=True):
            self._suspects.pop(passage.text_hash, None)
            work.vectors[passage.seq] = vector
        self.counts["passages"] += len(chunk)
        self._save(file, chunk)
        each_s = took_s / len(chunk)
        self._passage_s = (self._passage_s or each_s) * 0.8 + 0.2 * each_s
        if rest := self._settings.backfill_rest_percent:
            self._stop.wait(took_s * rest / 100)

    def _without(
        self, file: str, chunk: list[_Item], queue: deque[_Item], error: SidecarError
    ) -> deque[_Item]:
        """The queue after a request failed: with what it asked for, unless that is given up.

        Raises:
            SidecarError: see `_blame`.
        """
        self._blame(file, chunk, error)
        if len(chunk) > 1:
            queue.extendleft(reversed(chunk))
            return queue
        gone = chunk[0][0]
        return deque(item for item in queue if item[0] is not gone)

    def _size(self, queue: Sequence[tuple[_Work, Passage]]) -> int:
        """How many passages to ask for: what takes `backfill_request_ms`, suspects alone."""
        if queue[0][1].text_hash in self._suspects or not self._passage_s:
            return 1
        wanted = int(self._settings.backfill_request_ms / 1_000 / self._passage_s)
        size = min(max(1, wanted), self._settings.backfill_passages, len(queue))
        for place in range(size):
            if queue[place][1].text_hash in self._suspects:
                return place
        return size

    def _ask(self, chunk: Sequence[_Item], info: Info) -> list[bytes]:
        """On a thread of its own: touches nothing else."""
        found = self._sidecar.embed([passage.text for _, passage in chunk], model=info.model)
        if any(len(vector) != info.dims for vector in found):
            raise SidecarError(Failure.OTHER_MODEL, "WRONG_DIMS")
        return found

    def _save(self, file: str, chunk: Sequence[tuple[_Work, Passage]]) -> None:
        done: dict[int, list[int]] = {}
        works = {id(work): work for work, _ in chunk}
        for work, passage in chunk:
            done.setdefault(id(work), []).append(passage.seq)
        with self._files.vectors(file) as vectors:
            vectors.save(
                [
                    _all(works[key])
                    if works[key].whole
                    else (works[key].pending, works[key].rows(seqs), False, 0)
                    for key, seqs in done.items()
                ]
            )
        self.counts["documents"] += sum(work.whole for work in works.values())

    def _blame(
        self, file: str, chunk: Sequence[tuple[_Work, Passage]], error: SidecarError
    ) -> None:
        """Find what the sidecar cannot embed, and give that document up.

        Raises:
            SidecarError: it is not the document's fault, or not certainly.
        """
        self.counts["failed_requests"] += 1
        if error.failure in (Failure.OTHER_MODEL, Failure.OVERLOADED):
            raise error
        for _, passage in chunk:
            self._suspects[passage.text_hash] += 1
        (work, passage), alone = chunk[0], len(chunk) == 1
        often = self._suspects[passage.text_hash] >= self._settings.backfill_attempts
        if alone and (error.failure is Failure.REFUSED or often):
            del self._suspects[passage.text_hash]
            with self._files.vectors(file) as vectors:
                self._give_up(vectors, work, error.status)
        elif alone or error.failure is not Failure.REFUSED:
            raise error

    def _give_up(self, vectors: VectorWriter, work: _Work, reason: str) -> None:
        vectors.quarantine(work.pending, reason)
        self.counts["quarantined"] += 1


def _all(work: _Work) -> tuple[Pending, list[tuple[Passage, bytes]], bool, int]:
    return work.pending, work.rows(list(work.vectors)), True, work.cut.dropped_chars


def _groups(found: Sequence[Pending]) -> list[list[tuple[Pending, str]]]:
    """Documents with their texts, so many together as fit into one request."""
    groups: list[list[tuple[Pending, str]]] = []
    room = 0
    for pending in found:
        text = passages.source(pending.document)
        size = min(len(text), passages.SOURCE_CHARS)
        if not groups or size > room:
            groups.append([])
            room = SPLIT_CHARS
        groups[-1].append((pending, text))
        room -= size
    return groups
