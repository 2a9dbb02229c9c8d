"""What changing one document of a full index costs."""

from __future__ import annotations

import dataclasses
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from golden import builds, judged, metrics
from service.index.document import Upsert
from service.index.writer import IndexWriter

UPSERTS = 300
SEED = 5


def run(corpus: Path, *, upserts: int = UPSERTS) -> dict[str, Any]:
    """Change documents one a batch, in a copy of the corpus's index.

    Returns:
        `{"upserts", "cpu_ms": {p50, p90, p99}}`: CPU of the writing thread, one commit each.

    Raises:
        SetupError: the corpus cannot be read or holds no document.
        InvalidDocument: one of its lines is not a document.
    """
    lines = judged.documents(corpus)
    index = builds.index_of(corpus)
    stored = [o for batch in builds.batches(corpus, lines) for o in batch if isinstance(o, Upsert)]
    rng = random.Random(SEED)  # noqa: S311  (chance, not secrets)
    chosen = rng.sample(stored, min(upserts, len(stored)))
    folder = Path(tempfile.mkdtemp(prefix="memlane-bench-"))
    try:
        path = folder / builds.INDEX_NAME
        shutil.copy(index, path)
        with IndexWriter(path) as writer:
            writer.apply([_changed(chosen[0], 0)])  # the first batch of a process prepares all
            cpu_ms = [_cpu_ms(writer, _changed(o, number)) for number, o in enumerate(chosen, 1)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {"upserts": len(cpu_ms), "cpu_ms": metrics.percentiles(cpu_ms)}


def _changed(operation: Upsert, number: int) -> Upsert:
    document = operation.document
    note = f"{document.note}\nedit number {number}"
    return Upsert(line=1, document=dataclasses.replace(document, note=note))


def _cpu_ms(writer: IndexWriter, operation: Upsert) -> float:
    started = time.thread_time_ns()
    result = writer.apply([operation])
    spent = time.thread_time_ns() - started
    assert result.results[0].result == "updated"
    return spent / 1e6
