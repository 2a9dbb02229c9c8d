"""Judged sets: a corpus, queries, and which documents answer each query.

A folder holds, for every set, `NAME.corpus.ndjson` (or `.ndjson.gz`), `NAME.queries.ndjson` with
lines `{"id", "query"}`, and `NAME.qrels.tsv` with lines `query id <tab> document <tab> relevance`.
A document is written as its ref, or as `kind:ref` where refs alone would not tell it apart.
A query's class is its id before the last dash.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import orjson

from service.errors import SetupError

QUERIES_SUFFIX = ".queries.ndjson"
QRELS_SUFFIX = ".qrels.tsv"
CORPUS_SUFFIXES = (".corpus.ndjson", ".corpus.ndjson.gz")
GRADE_MAX = 30
"""Highest relevance grade; gains are `2**grade - 1`, so a typing slip must not overflow."""


@dataclass(frozen=True, slots=True)
class Query:
    """One judged query."""

    id: str
    text: str

    @property
    def family(self) -> str:
        """The query's class: its id before the last dash, or the whole id when it has none."""
        return self.id.rsplit("-", 1)[0]


@dataclass(frozen=True, slots=True)
class JudgedSet:
    """One set of a judged folder.

    Attributes:
        corpus: the documents' file, NDJSON, possibly gzipped.
        grades: query id -> document (ref or `kind:ref`) -> relevance, above 0 is relevant.
    """

    name: str
    corpus: Path
    queries: tuple[Query, ...]
    grades: Mapping[str, Mapping[str, int]]


def names(folder: Path) -> list[str]:
    """The sets of a folder, sorted.

    Raises:
        SetupError: the folder is missing or holds no set.
    """
    if not folder.is_dir():
        raise SetupError(f"{folder} is not a folder", hint="Give the judged folder as --corpora.")
    found = sorted(p.name.removesuffix(QUERIES_SUFFIX) for p in folder.glob(f"*{QUERIES_SUFFIX}"))
    if not found:
        raise SetupError(
            f"{folder} holds no judged set",
            hint=f"A set needs NAME{QUERIES_SUFFIX} and its corpus.",
        )
    return found


def load(folder: Path, name: str) -> JudgedSet:
    """Read one set's queries and judgements; the corpus is only located.

    Queries without a relevant document are left out: no engine can answer them.

    Raises:
        SetupError: a file is missing or a line cannot be read.
    """
    grades = _grades(folder / f"{name}{QRELS_SUFFIX}")
    queries = tuple(
        query for query in _queries(folder / f"{name}{QUERIES_SUFFIX}") if query.id in grades
    )
    return JudgedSet(name, corpus_path(folder, name), queries, grades)


def corpus_path(folder: Path, name: str) -> Path:
    """The corpus file of a set.

    Raises:
        SetupError: there is none.
    """
    for suffix in CORPUS_SUFFIXES:
        if (path := folder / f"{name}{suffix}").is_file():
            return path
    raise SetupError(
        f"{folder} has no {name}{CORPUS_SUFFIXES[0]}[.gz]", hint="Check --set and --corpora."
    )


def lines(path: Path) -> Iterator[bytes]:
    """The non-empty lines of an NDJSON file, plain or gzipped, without their line ends.

    Raises:
        SetupError: the file is missing or is not what its name says.
    """
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for line in file:
                if line := line.strip():
                    yield line
    except (OSError, EOFError) as error:
        raise SetupError(f"{path} cannot be read: {error}") from error


def documents(path: Path) -> list[bytes]:
    """All `lines` of a corpus.

    Raises:
        SetupError: it cannot be read or holds none.
    """
    found = list(lines(path))
    if not found:
        raise SetupError(f"{path} holds no document", hint="Check --set and --corpora.")
    return found


def _queries(path: Path) -> Iterator[Query]:
    for number, line in enumerate(lines(path), 1):
        try:
            row = orjson.loads(line)
            query_id, text = row["id"], row["query"]
        except (orjson.JSONDecodeError, KeyError, TypeError) as error:
            raise SetupError(f"{path}, line {number}: not an object with id and query") from error
        if not isinstance(query_id, str) or not isinstance(text, str):
            raise SetupError(f"{path}, line {number}: id and query must be strings")
        yield Query(query_id, text)


def _grades(path: Path) -> dict[str, dict[str, int]]:
    grades: dict[str, dict[str, int]] = {}
    for number, line in enumerate(lines(path), 1):
        try:
            query_id, document, raw = line.decode().split("\t")
            grade = int(raw)
        except ValueError as error:
            raise SetupError(f"{path}, line {number}: not id, document, relevance") from error
        if grade > GRADE_MAX:
            raise SetupError(f"{path}, line {number}: relevance {grade} is above {GRADE_MAX}")
        if grade > 0:
            grades.setdefault(query_id, {})[document] = grade
    return grades
