"""Indexes built from corpus files, kept in a cache folder so that repeated runs start at once.

A build's name is a hash of the corpus, of every version that shapes the file and of the code that
writes it (while it is being worked on, code changes before its version does), so an old build is
never read by mistake. A build is a folder that is renamed into place when it is complete; two runs
that build the same one do not disturb each other.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import service
from golden import judged
from service.index import schema
from service.index.connection import open_writer
from service.index.document import Delete, Upsert, parse_line
from service.index.writer import IndexWriter
from service.settings import Settings
from service.text import TOKENIZER_VERSION

BUILDS_KEPT = 32
"""Most builds in the cache folder; the least recently used go first."""
BATCH_LINES = 5_000
CORPUS_NOW_MS = 1_798_761_600_000
"""2027-01-01: what a corpus line without a date is dated, and the least "now" its dates are
checked against, so that a corpus loads whatever this machine's clock says."""
INDEX_NAME = "index.sqlite"
SERVICE = Path(service.__file__).parent
WRITING_CODE = ("text/*.py", "index/*.py", "ranking/sheet.py")


def cache_folder() -> Path:
    """Where builds are kept: `MEMLANE_GOLDEN_CACHE`, else a folder of this user's in temp."""
    if named := os.environ.get("MEMLANE_GOLDEN_CACHE"):
        return Path(named)
    return Path(tempfile.gettempdir()) / f"memlane-golden-{os.getuid()}"


def index_of(corpus: Path, *, cache: Path | None = None) -> Path:
    """The index file of a corpus, built when the cache has none.

    Args:
        corpus: an NDJSON file, plain or gzipped.
        cache: the cache folder; `cache_folder()` by default.

    Raises:
        SetupError: the corpus cannot be read.
        InvalidDocument: one of its lines is not a document.
    """
    name = corpus.name.split(".")[0]
    return kept(f"{name}-{digest(corpus)}", lambda path: write_index(corpus, path), cache=cache)


def kept(name: str, write: Callable[[Path], object], *, cache: Path | None = None) -> Path:
    """The index file of the build `name`, written by `write(path)` when the cache has none.

    The name must change with whatever shapes the file; see `digest`.
    """
    cache = cache_folder() if cache is None else cache
    cache.mkdir(mode=0o700, parents=True, exist_ok=True)
    build = cache / name
    if not (build / INDEX_NAME).is_file():
        _build(write, build)
        _drop_old(cache, keep=build)
    os.utime(build)
    return build / INDEX_NAME


def write_index(
    corpus: Path,
    path: Path,
    lines: Iterable[bytes] | None = None,
    *,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Index a corpus file into `path`.

    Args:
        corpus: the file.
        path: where the index goes.
        lines: other lines than the file's.
        progress: called with the number of operations of each batch.

    Returns:
        the number of operations applied.

    Raises:
        SetupError: the corpus cannot be read.
        InvalidDocument: one of its lines is not a document.
    """
    count = 0
    # A clock that stands still: recency counts from the last commit, and two builds must agree.
    with IndexWriter(path, clock=lambda: CORPUS_NOW_MS / 1000) as writer:
        for batch in batches(corpus, lines):
            writer.apply(batch)
            count += len(batch)
            if progress is not None:
                progress(len(batch))
    fold_log(path)
    return count


def fold_log(path: Path) -> None:
    """Fold the write-ahead log into the file: no Litestream runs here that would do it."""
    connection = open_writer(path)
    try:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    finally:
        connection.close()


def batches(corpus: Path, lines: Iterable[bytes] | None = None) -> Iterator[list[Upsert | Delete]]:
    """A corpus file's documents, `BATCH_LINES` at a time.

    Args:
        corpus: the file.
        lines: its lines, where they were read before.

    Raises:
        SetupError: the corpus cannot be read.
        InvalidDocument: one of its lines is not a document.
    """
    settings = Settings()
    now_ms = max(CORPUS_NOW_MS, time.time_ns() // 1_000_000)
    batch: list[Upsert | Delete] = []
    for number, line in enumerate(judged.lines(corpus) if lines is None else lines, 1):
        batch.append(parse_line(line, number=number, now_ms=now_ms, limits=settings))
        if len(batch) == BATCH_LINES:
            yield batch
            batch = []
    if batch:
        yield batch


def digest(corpus: Path) -> str:
    """A hash of a corpus file, and of the versions and the code that shape its index."""
    versions = f"{schema.SCHEMA_VERSION} {schema.LAYOUT_VERSION} {TOKENIZER_VERSION}"
    hashed = hashlib.blake2b(versions.encode(), digest_size=12)
    for pattern in WRITING_CODE:
        for path in sorted(SERVICE.glob(pattern)):
            hashed.update(path.read_bytes())
    with corpus.open("rb") as file:
        while block := file.read(1 << 20):
            hashed.update(block)
    return hashed.hexdigest()


def _build(write: Callable[[Path], object], build: Path) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=".building-", dir=build.parent))
    try:
        write(unfinished / INDEX_NAME)
        try:
            unfinished.rename(build)
        except OSError:
            if not (build / INDEX_NAME).is_file():  # else another run finished it first: use that
                raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _drop_old(cache: Path, *, keep: Path) -> None:
    builds = [p for p in cache.iterdir() if p.is_dir() and not p.name.startswith(".")]
    builds.sort(key=lambda p: p.stat().st_mtime, reverse=True)
    for old in builds[BUILDS_KEPT:]:
        if old != keep:
            shutil.rmtree(old, ignore_errors=True)
