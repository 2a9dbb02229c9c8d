"""All engines over the same queries in one run, query by query, under one clock."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from golden import judged, runner
from golden.answers import WARMING, Answer, Found
from golden.backends import InProcess
from golden.judged import JudgedSet
from golden.lexicon import Document, document
from golden.peers import engine
from golden.peers.bm25s_stemmed import Bm25s
from golden.peers.fts5 import TOKENIZERS, Fts5
from golden.peers.tantivy_text import NGRAMS, Tantivy

OURS = "memlane"

Make = Callable[[Sequence[Document]], engine.Engine]
PEERS: Mapping[str, Make] = {
    "bm25s+stem": Bm25s,
    **{name: partial(Tantivy, ngram=ngram) for name, ngram in NGRAMS.items()},
    **{name: partial(Fts5, tokenizer=tokenizer) for name, tokenizer in TOKENIZERS.items()},
}


class Ours:
    """The engine of this checkout, as one of them."""

    def __init__(self, corpus: Path) -> None:
        self._backend = InProcess(corpus)

    def search(self, query: str, limit: int) -> list[Found]:
        """See `Engine.search`."""
        return list(self._backend.search(query, limit).hits)

    def close(self) -> None:
        """See `Engine.close`."""
        self._backend.__exit__()


def run(
    judged_set: JudgedSet,
    *,
    first: int | None = None,
    peers: Mapping[str, Make],
    missing: Callable[[str, engine.MissingPackage], object],
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Ask every engine every query of a set, the engine that goes first changing each time.

    Args:
        judged_set: the set; each engine indexes its corpus in memory, ours has its build.
        first: only the first so many queries.
        peers: what stands beside our engine.
        missing: told of each peer that is left out because its package is not installed.
        progress: called with 1 after each query.

    Returns:
        `{ENGINE: the report of runner.report}`, ours first; times are of the searching thread and
        enclose all that a caller waits for, query text to refs.

    Raises:
        SetupError: the corpus cannot be read or holds no document.
    """
    outcomes: dict[str, list[runner.Outcome]] = {}
    with _opened(judged_set.corpus, peers, missing) as engines:
        for each in engines.values():
            each.search(WARMING, runner.DEPTH)
        names = list(engines)
        for number, query in enumerate(judged_set.queries[:first]):
            turn = number % len(names)
            for name in names[turn:] + names[:turn]:
                answer = _timed(engines[name], query.text)
                outcome = runner.outcome(query, answer, judged_set.grades[query.id])
                outcomes.setdefault(name, []).append(outcome)
            if progress is not None:
                progress(1)
        return {name: runner.report(outcomes.get(name, [])) for name in names}


@contextmanager
def _opened(
    corpus: Path,
    peers: Mapping[str, Make],
    missing: Callable[[str, engine.MissingPackage], object],
) -> Iterator[dict[str, engine.Engine]]:
    documents = [document(line) for line in judged.documents(corpus)]
    engines: dict[str, engine.Engine] = {OURS: Ours(corpus)}
    with ExitStack() as stack:
        stack.callback(engines[OURS].close)
        for name, make in peers.items():
            try:
                engines[name] = make(documents)
            except engine.MissingPackage as error:
                missing(name, error)
            else:
                stack.callback(engines[name].close)
        yield engines


def _timed(searched: engine.Engine, query: str) -> Answer:
    wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
    hits = searched.search(query, runner.DEPTH)
    cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
    return Answer(hits, wall_ms=wall / 1e6, cpu_ms=cpu / 1e6)
