"""What travels, as types: only what callers commonly use; an answer may hold more.

The whole description is served at `/v1/openapi.json`.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Durability = Literal["local", "replicated"]


class Ref(TypedDict):
    """The name of a document."""

    kind: str
    ref: str


class Line(Ref):
    """An upsert or a deletion; `updated_at` is ms since 1970, UTC."""

    op: NotRequired[Literal["upsert", "delete"]]
    title: NotRequired[str]
    summary: NotRequired[str]
    note: NotRequired[str]
    meta: NotRequired[str]
    updated_at: NotRequired[int]
    identifiers: NotRequired[list[str]]
    if_newer: NotRequired[bool]


class Document(Ref):
    """A whole document."""

    title: str
    summary: str
    note: str
    meta: str
    updated_at: int
    identifiers: list[str]


class Index(TypedDict):
    """What an answer was made from: a version, and how old that is."""

    version: int
    as_of: str
    age_ms: int
    docs: int
    temperature: Literal["hot", "warm", "cold"]


class Hit(Ref):
    """One result."""

    title: str
    score: float
    components: dict[str, float]
    snippet: str
    marks: list[tuple[int, int]]
    updated_at: int
    tokens: int


class Found(TypedDict):
    """An answer of `search`."""

    hits: list[Hit]
    cursor: str | None
    read_as: dict[str, Any]
    semantic: dict[str, Any]
    index: Index
    took_ms: dict[str, float]
    explain: NotRequired[dict[str, Any]]


class Timeline(TypedDict):
    """An answer of `timeline`."""

    before: list[dict[str, Any]]
    here: dict[str, Any]
    after: list[dict[str, Any]]
    left_out: int
    index: dict[str, Any]


class Documents(TypedDict):
    """An answer of `get`."""

    documents: list[Document]
    missing: list[Ref]
    cut: list[Any]
    left_out: list[Ref]
    index: Index


class LineResult(TypedDict):
    """What became of one line of a batch."""

    line: int
    result: str
    kind: NotRequired[str]
    ref: NotRequired[str]
    kept: NotRequired[bool]
    error: NotRequired[str]
    hint: NotRequired[str]


class Written(TypedDict):
    """An answer of `batch`."""

    version: int
    replayed: bool
    counts: dict[str, int]
    results: list[LineResult]


class Digests(TypedDict):
    """An answer of `manifest`."""

    tenant: str
    version: int
    documents: int
    digests: list[str]
    index: Index


class Rows(TypedDict):
    """An answer of `bucket`: key, `updated_at`, content hash of each document."""

    version: int
    rows: list[tuple[str, int, str]]
    index: Index
