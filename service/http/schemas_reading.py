"""The shapes of what is read: searches, timelines, prefetches, documents; as JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from service.http.shapes import (
    ANY_OBJECT,
    COUNT,
    FLAG,
    INDEX,
    MS,
    NAME,
    NUMBERS,
    TEXT,
    TIME,
    Schema,
    exactly,
    fields,
    list_of,
    or_null,
    parameter,
)
from service.semantic.state import SemanticReason, SemanticState

_LIMIT_TOKENS: Final = {
    "type": "integer",
    "minimum": 400,
    "description": "Most tokens of the answer; what does not fit is left out and said to be.",
}
TOKENS: Final = {
    **exactly(shown=COUNT, full=COUNT, saved_percent=COUNT, error_percent=COUNT),
    "description": "Estimated tokens of this answer and of the documents it stands for, whole, and "
    "how far off such an estimate may be.",
}
_LEAN_INDEX: Final = exactly(version=COUNT, age_ms=COUNT)

_SEARCH_FIELDS: Final[Mapping[str, Schema]] = {
    "q": {
        "type": "string",
        "description": 'Text; also "a phrase", -word, kind:note, after:2026-01-01.',
    },
    "limit": {"type": "integer", "minimum": 1, "default": 10},
    "cursor": {"type": "string", "description": "From the page before."},
    "kinds": list_of(TEXT),
    "refs": list_of(TEXT),
    "updated_after": TIME,
    "updated_before": TIME,
    "min_version": {**COUNT, "description": "Wait for this index version, else replica-behind."},
    "max_staleness_ms": {**COUNT, "description": "Refuse an answer older than this."},
    "explain": {**FLAG, "default": False},
    "layer": {
        "enum": ["hits", "compact"],
        "default": "hits",
        "description": "compact: rows of about fifty tokens.",
    },
    "limit_tokens": _LIMIT_TOKENS,
}
SEARCH_PARAMETERS: Final = [
    parameter(name, schema, required=name == "q") for name, schema in _SEARCH_FIELDS.items()
]
SEARCH_REQUEST: Final = fields(
    ("q",), **_SEARCH_FIELDS, semantic=fields(deadline_ms={"type": "integer", "minimum": 0})
)

SEARCH_RESULT: Final = fields(
    ("hits", "cursor", "read_as", "semantic", "index", "took_ms"),
    hits=list_of(
        exactly(
            kind=TEXT,
            ref=TEXT,
            title=TEXT,
            score={"type": "number"},
            components=NUMBERS,
            snippet=TEXT,
            marks={
                **list_of(list_of(COUNT)),
                "description": "[begin, end) of each match in `snippet`, in characters",
            },
            updated_at=MS,
            tokens={**COUNT, "description": "What the full text costs a model, estimated."},
        )
    ),
    cursor=or_null(TEXT),
    read_as={**ANY_OBJECT, "description": "How the query was understood."},
    explain=or_null(ANY_OBJECT),
    semantic=exactly(
        state={"enum": [state.value for state in SemanticState]},
        reason={"enum": [*(reason.value for reason in SemanticReason), None]},
        model=or_null(TEXT),
        coverage=or_null({"type": "number", "minimum": 0, "maximum": 1}),
    ),
    index=INDEX,
    took_ms=NUMBERS,
)
_LEAN_SEMANTIC: Final = exactly(
    state={"enum": [state.value for state in SemanticState]},
    reason={"enum": [*(reason.value for reason in SemanticReason), None]},
)
_LEFT_OUT: Final = {**COUNT, "description": "Rows for which there was no room."}
_ROWS: Final[Mapping[str, Schema]] = {
    "columns": {**list_of(TEXT), "description": "What stands in each row of `hits`, in order."},
    "components": {
        **list_of(TEXT),
        "description": "What the digits of a row's components stand for: tenths, 9 for 0.9 and up.",
    },
    "hits": list_of({"type": "array", "description": "kind, ref, title, snippet, score, ..."}),
    "left_out": _LEFT_OUT,
}
COMPACT_RESULT: Final = exactly(
    **_ROWS,
    cursor=or_null(TEXT),
    semantic=_LEAN_SEMANTIC,
    index=_LEAN_INDEX,
    tokens=TOKENS,
)
BOUNDED_RESULT: Final = exactly(
    hits=SEARCH_RESULT["properties"]["hits"],
    left_out=_LEFT_OUT,
    cursor=or_null(TEXT),
    semantic=_LEAN_SEMANTIC,
    index=_LEAN_INDEX,
    tokens=TOKENS,
)

TIMELINE_REQUEST: Final = fields(
    ("kind", "ref"),
    kind=TEXT,
    ref=TEXT,
    before={**COUNT, "default": 5},
    after={**COUNT, "default": 5},
    within={"enum": ["kind", "all"], "default": "kind"},
    limit_tokens=_LIMIT_TOKENS,
    min_version=COUNT,
    max_staleness_ms=COUNT,
)
_MOMENT: Final = exactly(kind=TEXT, ref=TEXT, title=TEXT, snippet=TEXT, updated_at=MS, tokens=COUNT)
TIMELINE: Final = exactly(
    before={**list_of(_MOMENT), "description": "In order of time: the last one is the nearest."},
    here=or_null(_MOMENT),
    after=list_of(_MOMENT),
    left_out=_LEFT_OUT,
    index=_LEAN_INDEX,
    tokens=TOKENS,
)

PREFETCH_REQUEST: Final = fields(
    ("text",),
    text={"type": "string", "description": "Any text; nothing in it is grammar."},
    budget_ms={"type": "integer", "minimum": 50, "default": 300},
    kinds=list_of(TEXT),
    limit={"type": "integer", "minimum": 1, "default": 5},
    limit_tokens=_LIMIT_TOKENS,
)
PREFETCHED: Final = exactly(
    **_ROWS,
    query={"type": "string", "description": "What was asked for."},
    skipped={
        "type": "array",
        "items": {"enum": ["replica", "search", "semantic"]},
        "description": "What could not be done within the budget.",
    },
    budget_ms=COUNT,
    semantic=_LEAN_SEMANTIC,
    index=or_null(_LEAN_INDEX),
    tokens=TOKENS,
)

GET_REQUEST: Final = fields(
    ("refs",),
    refs=list_of(NAME),
    max_bytes={"type": "integer", "minimum": 1},
    vectors={**FLAG, "default": False, "description": "With the vectors of complete documents."},
)
VECTORS: Final = fields(
    ("model", "policy", "passages"),
    model=TEXT,
    policy=COUNT,
    dropped_chars=COUNT,
    passages={
        "type": "array",
        "items": {"type": "array", "minItems": 3, "maxItems": 3},
        "description": "[begin, end, base64 of an int8 vector] in the document's source text.",
    },
)
DOCUMENTS: Final = exactly(
    documents=list_of(
        fields(
            (*("kind", "ref", "title", "summary", "note", "meta"), "updated_at", "identifiers"),
            kind=TEXT,
            ref=TEXT,
            title=TEXT,
            summary=TEXT,
            note=TEXT,
            meta=TEXT,
            updated_at=MS,
            identifiers=list_of(TEXT),
            vectors=VECTORS,
        )
    ),
    missing=list_of(NAME),
    cut={
        **list_of(exactly(kind=TEXT, ref=TEXT, field=TEXT, chars=COUNT, of_chars=COUNT)),
        "description": "Texts that end early for want of room.",
    },
    left_out={**list_of(NAME), "description": "Documents for which there was no room."},
    unnamed={**COUNT, "description": "How many more are cut, missing or left out."},
    index=INDEX,
    tokens=TOKENS,
)
