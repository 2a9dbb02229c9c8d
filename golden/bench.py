"""What indexing and searching cost, in CPU time: wall clock on a shared machine says little."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from golden import builds, judged, metrics
from golden.answers import Backend
from golden.judged import JudgedSet
from golden.lexicon import document
from service.index.writer import IndexWriter
from service.text import index_columns

LIMIT = 10


def index(corpus: Path) -> dict[str, Any]:
    """Index a corpus into a fresh file, push it again unchanged, and cut its text alone.

    Returns:
        `{"documents", "chars", "parse_cpu_s", "cpu_s", "documents_per_cpu_s", "bytes",
        "bytes_per_document", "unchanged": {"cpu_s", "speedup"}, "tokenizer": {"chars", "cpu_s",
        "mchar_per_cpu_s"}}`. CPU seconds are the whole process's, without reading the
        corpus; `documents_per_cpu_s` is of the writer, with lines already parsed.

    Raises:
        SetupError: the corpus cannot be read.
        InvalidDocument: one of its lines is not a document.
    """
    lines = list(judged.lines(corpus))
    parsed: list[Any] = []
    parse_cpu_s = _cpu_s(lambda: parsed.extend(builds.batches(corpus, lines)))
    folder = Path(tempfile.mkdtemp(prefix="memlane-bench-"))
    try:
        path = folder / builds.INDEX_NAME
        with IndexWriter(path) as writer:
            first_cpu_s = _cpu_s(lambda: [writer.apply(batch) for batch in parsed])
            again_cpu_s = _cpu_s(lambda: [writer.apply(batch) for batch in parsed])
        builds.fold_log(path)
        size = path.stat().st_size
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    tokenizer = _tokenizer(lines)
    return {
        "documents": len(lines),
        "chars": tokenizer["chars"],
        "parse_cpu_s": parse_cpu_s,
        "cpu_s": first_cpu_s,
        "documents_per_cpu_s": _rate(len(lines), first_cpu_s),
        "bytes": size,
        "bytes_per_document": _rate(size, len(lines)),
        "unchanged": {"cpu_s": again_cpu_s, "speedup": _rate(first_cpu_s, again_cpu_s)},
        "tokenizer": tokenizer,
    }


def _tokenizer(lines: list[bytes]) -> dict[str, Any]:
    texts = [text for d in map(document, lines) for text in (d.title, d.body) if text]
    chars = sum(map(len, texts))
    cpu_s = _cpu_s(lambda: [index_columns(text) for text in texts])
    return {
        "chars": chars,
        "cpu_s": cpu_s,
        "mchar_per_cpu_s": _rate(chars / 1e6, cpu_s),
    }


def query(backend: Backend, judged_set: JudgedSet, *, first: int | None = None) -> dict[str, Any]:
    """Search a judged set's queries once each: nothing is served from a cache of answers.

    Returns:
        `{"queries", "cpu_ms": {p50, p90, p99} or None for a server, "wall_ms": {p50, p90, p99}}`.

    Raises:
        MemlaneError: a search failed.
    """
    texts = list(dict.fromkeys(query.text for query in judged_set.queries[:first]))
    answers = [backend.search(text, LIMIT) for text in texts]
    cpu_ms = [answer.cpu_ms for answer in answers if answer.cpu_ms is not None]
    return {
        "queries": len(texts),
        "cpu_ms": metrics.percentiles(cpu_ms) if cpu_ms else None,
        "wall_ms": metrics.percentiles([answer.wall_ms for answer in answers]),
    }


def _cpu_s(work: Callable[[], object]) -> float:
    started = time.process_time_ns()
    work()
    return (time.process_time_ns() - started) / 1e9


def _rate(amount: float, over: float) -> float:
    return amount / over if over else 0.0
