"""What a query costs as the index grows, on the same queries, interleaved over all sizes."""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import orjson

from golden import builds, judged, lexicon, metrics
from golden.answers import WARMING
from golden.backends import OpenIndex
from golden.judged import JudgedSet

SIZES = (1_000, 12_000, 100_000, 400_000)
BASE = 12_000
"""`p99_growth` is the largest size's p99 over this one's (or over the smallest's without it)."""
QUERIES = 300
LIMIT = 10
REPLACED_SHARE = 0.25
"""Of a repeated document's words; they become another document's or, where they are not CJK,
pseudo-words."""
PSEUDO_SHARE = 0.5
PSEUDO_WORDS = 2_000_000
"""Most pseudo-words; the low numbers come most often, new ones keep coming (as Heaps' law has
it for real text)."""
_SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
_CJK = re.compile(f"[{lexicon.CJK}]")
_TEXT_FIELDS = ("title", "summary", "note")

Building = Callable[[int], AbstractContextManager[Callable[[int], object]]]


def run(
    judged_set: JudgedSet,
    sizes: Sequence[int] = SIZES,
    *,
    first: int = QUERIES,
    building: Building,
) -> dict[str, Any]:
    """Search one set's queries in indexes of several sizes.

    Args:
        judged_set: its corpus is cut for smaller sizes, repeated with changed words for larger.
        sizes: documents, each at least 1.
        first: how many of its queries.
        building: opened with a size that is not in the build cache yet, gives what is called with
            the number of documents of each batch.

    Returns:
        `{"queries", "sizes": {SIZE: {"cpu_ms": {p50, p90, p99}}}, "p99_growth"}`.

    Raises:
        SetupError: the corpus cannot be read or holds no document.
    """
    ordered = sorted(set(sizes))
    texts = list(dict.fromkeys(query.text for query in judged_set.queries[:first]))
    cpu_ms: dict[int, list[float]] = {size: [] for size in ordered}
    with ExitStack() as stack:
        indexes = {
            size: stack.enter_context(OpenIndex(index_of(judged_set.corpus, size, building)))
            for size in ordered
        }
        for index in indexes.values():  # the first query of an index reads its first pages
            index.search(WARMING, LIMIT)
        for number, text in enumerate(texts):
            turn = number % len(ordered)
            for size in ordered[turn:] + ordered[:turn]:
                cpu_ms[size].append(indexes[size].search(text, LIMIT).cpu_ms or 0.0)
    figures = {size: metrics.percentiles(cpu_ms[size]) for size in ordered}
    base = figures[BASE if BASE in figures else ordered[0]]["p99"]
    return {
        "queries": len(texts),
        "sizes": {str(size): {"cpu_ms": figures[size]} for size in ordered},
        "p99_growth": figures[ordered[-1]]["p99"] / base if base else 0.0,
    }


def index_of(corpus: Path, size: int, building: Building) -> Path:
    """The index of the first `size` documents of `grown`, kept in the build cache."""
    shape = hashlib.blake2b(Path(__file__).read_bytes(), digest_size=4).hexdigest()

    def write(path: Path) -> None:
        with building(size) as progress:
            builds.write_index(
                corpus, path, itertools.islice(grown(corpus), size), progress=progress
            )

    name = f"{corpus.name.split('.')[0]}-first-{size}-{shape}-{builds.digest(corpus)}"
    return builds.kept(name, write)


def grown(corpus: Path) -> Iterator[bytes]:
    """The lines of a corpus, then the same documents again and again as others.

    A repeated document has a ref and identifiers of its own, and a share of its words replaced,
    so that vocabularies and posting lists grow as they would with new documents. The same corpus
    always gives the same lines. Endless.

    Raises:
        SetupError: the corpus cannot be read or holds no document.
    """
    lines = judged.documents(corpus)
    yield from lines
    for copy in itertools.count(1):
        for number, line in enumerate(lines):
            rng = random.Random(f"{copy} {number}")  # noqa: S311  (chance, not secrets)
            donor = lexicon.document(lines[rng.randrange(len(lines))])
            yield _other(orjson.loads(line), donor, copy, rng)


def _other(row: dict[str, Any], donor: lexicon.Document, copy: int, rng: random.Random) -> bytes:
    given = lexicon.words(f"{donor.title}\n{donor.body}")
    cjk = [word for word in given if _CJK.match(word)]
    plain = [word for word in given if not _CJK.match(word)]

    def replace(word: str) -> str:
        if rng.random() >= REPLACED_SHARE:
            return word
        if _CJK.match(word):
            return rng.choice(cjk or [word])
        if rng.random() < PSEUDO_SHARE:
            return pseudo_word(int(PSEUDO_WORDS * rng.random() ** 3))
        return rng.choice(plain or [word])

    row["ref"] = f"{row['ref']}~{copy}"
    row["identifiers"] = [f"{name}~{copy}" for name in row.get("identifiers") or ()]
    for field in _TEXT_FIELDS:
        if row.get(field):
            row[field] = lexicon.replaced(row[field], replace)
    return orjson.dumps(row)


def pseudo_word(number: int) -> str:
    """A pronounceable word for a number; different numbers give different words."""
    word = ""
    while True:
        number, digit = divmod(number, len(_SYLLABLES))
        word += _SYLLABLES[digit]
        if not number:
            return word
        number -= 1
