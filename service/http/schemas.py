"""The shapes of requests and answers, as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from service.semantic.state import SemanticReason, SemanticState
from service.tenancy.keys import SCOPES

Schema = Mapping[str, Any]

_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_MS: Final = {"type": "integer", "minimum": 0, "description": "ms since 1970, UTC"}
_FLAG: Final = {"type": "boolean"}
_NUMBERS: Final = {"type": "object", "additionalProperties": {"type": "number"}}
_ANY_OBJECT: Final = {"type": "object"}
_TIME: Final = {
    "oneOf": [_MS, {"type": "string", "description": "ISO 8601 date or time; UTC without a zone"}]
}


def fields(required: tuple[str, ...] = (), **properties: Schema) -> dict[str, Any]:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def parameter(
    name: str, schema: Schema, *, where: str = "query", required: bool = False, about: str = ""
) -> dict[str, Any]:
    """A parameter of a call."""
    return {
        "name": name,
        "in": where,
        "required": required,
        "schema": schema,
        **({"description": about} if about else {}),
    }


def _all(**properties: Schema) -> dict[str, Any]:
    """An object that always has all of these properties."""
    return fields(tuple(properties), **properties)


def _list(schema: Schema) -> dict[str, Any]:
    return {"type": "array", "items": schema}


def _or_null(schema: Schema) -> dict[str, Any]:
    return {"oneOf": [schema, {"type": "null"}]}


_NAME: Final = _all(kind=_TEXT, ref=_TEXT)

_TEMPERATURE: Final = {
    "enum": ["hot", "warm", "cold"],
    "description": "hot: from an open file; warm: it was on this node; cold: it was brought here.",
}
INDEX: Final = _all(
    version=_COUNT,
    as_of={"type": "string", "format": "date-time"},
    age_ms=_COUNT,
    docs=_COUNT,
    temperature=_TEMPERATURE,
)

_SEARCH_FIELDS: Final[Mapping[str, Schema]] = {
    "q": {
        "type": "string",
        "description": 'Text; also "a phrase", -word, kind:note, after:2026-01-01.',
    },
    "limit": {"type": "integer", "minimum": 1, "default": 10},
    "cursor": {"type": "string", "description": "From the page before."},
    "kinds": _list(_TEXT),
    "refs": _list(_TEXT),
    "updated_after": _TIME,
    "updated_before": _TIME,
    "min_version": {**_COUNT, "description": "Wait for this index version, else replica-behind."},
    "max_staleness_ms": {**_COUNT, "description": "Refuse an answer older than this."},
    "explain": {**_FLAG, "default": False},
}
SEARCH_PARAMETERS: Final = [
    parameter(name, schema, required=name == "q") for name, schema in _SEARCH_FIELDS.items()
]
SEARCH_REQUEST: Final = fields(
    ("q",), **_SEARCH_FIELDS, semantic=fields(deadline_ms={"type": "integer", "minimum": 0})
)

SEARCH_RESULT: Final = fields(
    ("hits", "cursor", "read_as", "semantic", "index", "took_ms"),
    hits=_list(
        _all(
            kind=_TEXT,
            ref=_TEXT,
            title=_TEXT,
            score={"type": "number"},
            components=_NUMBERS,
            snippet=_TEXT,
            marks={
                **_list(_list(_COUNT)),
                "description": "[begin, end) of each match in `snippet`, in characters",
            },
            updated_at=_MS,
            tokens={**_COUNT, "description": "What the full text costs a model, estimated."},
        )
    ),
    cursor=_or_null(_TEXT),
    read_as={**_ANY_OBJECT, "description": "How the query was understood."},
    explain=_or_null(_ANY_OBJECT),
    semantic=_all(
        state={"enum": [state.value for state in SemanticState]},
        reason={"enum": [*(reason.value for reason in SemanticReason), None]},
        model=_or_null(_TEXT),
        coverage=_or_null({"type": "number", "minimum": 0, "maximum": 1}),
    ),
    index=INDEX,
    took_ms=_NUMBERS,
)

GET_REQUEST: Final = fields(
    ("refs",),
    refs=_list(_NAME),
    max_bytes={"type": "integer", "minimum": 1},
    vectors={**_FLAG, "default": False, "description": "With the vectors of complete documents."},
)
VECTORS: Final = fields(
    ("model", "policy", "passages"),
    model=_TEXT,
    policy=_COUNT,
    dropped_chars=_COUNT,
    passages={
        "type": "array",
        "items": {"type": "array", "minItems": 3, "maxItems": 3},
        "description": "[begin, end, base64 of an int8 vector] in the document's source text.",
    },
)
DOCUMENTS: Final = _all(
    documents=_list(
        fields(
            (*("kind", "ref", "title", "summary", "note", "meta"), "updated_at", "identifiers"),
            kind=_TEXT,
            ref=_TEXT,
            title=_TEXT,
            summary=_TEXT,
            note=_TEXT,
            meta=_TEXT,
            updated_at=_MS,
            identifiers=_list(_TEXT),
            vectors=VECTORS,
        )
    ),
    missing=_list(_NAME),
    cut={
        **_list(_all(kind=_TEXT, ref=_TEXT, field=_TEXT, chars=_COUNT, of_chars=_COUNT)),
        "description": "Texts that end early for want of room.",
    },
    left_out={**_list(_NAME), "description": "Documents for which there was no room."},
    index=INDEX,
)

BATCH_LINE: Final = fields(
    ("kind", "ref"),
    op={"enum": ["upsert", "delete"], "default": "upsert"},
    kind=_TEXT,
    ref=_TEXT,
    title=_TEXT,
    summary=_TEXT,
    note=_TEXT,
    meta=_TEXT,
    updated_at=_MS,
    updatedAt={**_MS, "description": "Another name of updated_at."},
    identifiers=_list(_TEXT),
    vectors={**VECTORS, "description": "Kept when model and policy are the index's."},
)
BATCH_RESULT: Final = fields(
    ("version", "replayed", "counts", "results"),
    vectors=_all(carried=_COUNT, kept=_COUNT),
    version={**_COUNT, "description": "The index version that holds the batch."},
    replayed={**_FLAG, "description": "This Idempotency-Key was answered before."},
    counts={"type": "object", "additionalProperties": _COUNT},
    results=_list(
        fields(
            ("line", "result"),
            line={"type": "integer", "minimum": 1},
            kind=_TEXT,
            ref=_TEXT,
            result={
                "enum": [
                    "created",
                    "updated",
                    "touched",
                    "unchanged",
                    "deleted",
                    "absent",
                    "superseded",
                    "refused",
                ]
            },
            kept={**_FLAG, "description": "Only when some lines were refused."},
            error=_TEXT,
            hint=_TEXT,
        )
    ),
)

INDEX_STATUS: Final = {
    "type": "object",
    "properties": {"tenant": _TEXT, "index": INDEX},
    "required": ["tenant", "index"],
}
SEMANTIC_WEIGHT: Final = _all(
    tenant=_TEXT, percent={"type": "integer", "minimum": 0, "maximum": 100}
)
WARM_REQUEST: Final = fields(
    (),
    pin_ms={**_COUNT, "default": 0, "description": "Keep it from eviction for so long."},
    wait_ms={**_COUNT, "description": "Wait so long for it; it comes all the same."},
    tenants={**_list(_TEXT), "description": "With an operator's key: which ones."},
)
_WARMTH: Final[Mapping[str, Schema]] = {
    "resident": _FLAG,
    "temperature": _TEMPERATURE,
    "version": _or_null(_COUNT),
    "bytes": _COUNT,
    "activated_ms": {**_COUNT, "description": "0 when it was here already."},
    "pinned_ms": {**_COUNT, "description": "0 when it is not pinned, for want of room perhaps."},
    "reason": {**_TEXT, "description": "Why it is not here."},
}
WARM_RESULT: Final = {
    "oneOf": [
        fields(("resident", "temperature", "version", "bytes", "activated_ms"), **_WARMTH),
        _all(tenants=_list(fields(("tenant", "resident"), tenant=_TEXT, **_WARMTH))),
    ]
}
ANALYSIS: Final = _all(
    tokenizer={**_COUNT, "description": "The tokenizer's version."},
    streams=_ANY_OBJECT,
    query=_or_null(_ANY_OBJECT),
)

RECEIPT: Final = _all(
    tenant=_TEXT,
    file={**_TEXT, "description": "Its file's name: what its objects lie below."},
    requested_at=_MS,
    deleted_at=_MS,
    documents={**_or_null(_COUNT), "description": "What it held; null when nobody could tell."},
    version=_or_null(_COUNT),
    epochs=_list(_COUNT),
    objects_deleted={**_COUNT, "description": "Counted anew after a crash: `attempts` above 1."},
    bytes_deleted=_COUNT,
    objects_remaining={"const": 0},
    local_files_removed=_COUNT,
    announced={"const": True},
    attempts={"type": "integer", "minimum": 1},
    readers=_TEXT,
)
TENANT: Final = _all(
    name=_TEXT,
    state={"enum": ["active", "suspended", "deleting", "deleted"]},
    epoch=_COUNT,
    shard={"type": "string", "description": "Whose writer has its file."},
    moving_to=_or_null({"type": "string"}),
    created_at=_MS,
    deletion=_or_null(
        _all(
            requested_at=_MS,
            receipt=_or_null(RECEIPT),
            trouble={**_or_null(_TEXT), "description": "Why it is not done yet."},
        )
    ),
)
RESTORE_REQUEST: Final = fields(("at",), at=_TIME, dry_run={**_FLAG, "default": False})
RESTORE_RESULT: Final = _all(
    tenant=_TEXT,
    dry_run=_FLAG,
    from_version=_COUNT,
    version={**_COUNT, "description": "The version it has now; greater than any before."},
    at=_MS,
    restored_to={**_MS, "description": "The last batch it holds was committed then."},
    restored_version={**_COUNT, "description": "The version that batch had made."},
    documents=_COUNT,
    announced={**_FLAG, "description": "Readers know. When false, they will."},
)
TENANTS: Final = _all(tenants=_list(TENANT))
KEY_REQUEST: Final = fields(
    ("scopes",),
    tenant=_or_null(_TEXT),
    scopes=_list({"enum": list(SCOPES)}),
    label=_TEXT,
    expires_at=_or_null(_MS),
)
KEY_RESULT: Final = _all(
    key=_TEXT,
    id=_COUNT,
    tenant=_or_null(_TEXT),
    scopes=_list(_TEXT),
    label=_TEXT,
    created_at=_MS,
    expires_at=_or_null(_MS),
    revoked_at=_or_null(_MS),
)

HEALTH: Final = {
    "type": "object",
    "properties": {"ready": _FLAG, "reasons": _list(_TEXT), "role": _TEXT},
    "required": ["ready", "reasons", "role"],
}
PROBLEM: Final = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": _TEXT,
        "status": _COUNT,
        "detail": _TEXT,
        "hint": _TEXT,
        "request_id": _TEXT,
    },
    "required": ["type", "title", "status", "detail", "hint", "request_id"],
}
