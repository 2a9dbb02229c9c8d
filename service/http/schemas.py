"""The shapes of requests and answers, as JSON Schema, for the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from service.http.schemas_reading import VECTORS
from service.http.shapes import (
    ANY_OBJECT,
    COUNT,
    FLAG,
    INDEX,
    MS,
    TEMPERATURE,
    TEXT,
    TIME,
    Schema,
    exactly,
    fields,
    list_of,
    or_null,
)
from service.tenancy.keys import SCOPES

BATCH_LINE: Final = fields(
    ("kind", "ref"),
    op={"enum": ["upsert", "delete"], "default": "upsert"},
    kind=TEXT,
    ref=TEXT,
    title=TEXT,
    summary=TEXT,
    note=TEXT,
    meta=TEXT,
    updated_at=MS,
    updatedAt={**MS, "description": "Another name of updated_at."},
    identifiers=list_of(TEXT),
    if_newer={
        **FLAG,
        "default": False,
        "description": "Upsert: only over what is older by `updated_at`, ties by content hash. "
        "Delete: only what is not newer than `updated_at`.",
    },
    vectors={**VECTORS, "description": "Kept when model and policy are the index's."},
)
BATCH_RESULT: Final = fields(
    ("version", "replayed", "counts", "results"),
    vectors=exactly(carried=COUNT, kept=COUNT),
    version={**COUNT, "description": "The index version that holds the batch."},
    replayed={**FLAG, "description": "This Idempotency-Key was answered before."},
    counts={"type": "object", "additionalProperties": COUNT},
    results=list_of(
        fields(
            ("line", "result"),
            line={"type": "integer", "minimum": 1},
            kind=TEXT,
            ref=TEXT,
            result={
                "enum": [
                    "created",
                    "updated",
                    "touched",
                    "unchanged",
                    "older",
                    "deleted",
                    "absent",
                    "superseded",
                    "refused",
                ]
            },
            kept={**FLAG, "description": "Only when some lines were refused."},
            error=TEXT,
            hint=TEXT,
        )
    ),
)

_DIGEST: Final = {"type": "string", "pattern": "^[0-9a-f]{16}$"}
MANIFEST: Final = exactly(
    tenant=TEXT,
    version=COUNT,
    documents=COUNT,
    digests={
        **list_of(_DIGEST),
        "minItems": 256,
        "maxItems": 256,
        "description": "By the first byte of a document's key: the XOR of blake2b-8 over key, "
        "`updated_at` (8 bytes, big-endian) and content hash. Key: blake2b-8 of kind, NUL, ref.",
    },
    index=INDEX,
)
MANIFEST_ROWS: Final = exactly(
    version=COUNT,
    rows=list_of(
        {
            "type": "array",
            "prefixItems": [_DIGEST, MS, {"type": "string", "pattern": "^[0-9a-f]{32}$"}],
            "description": "Key, `updated_at`, content hash.",
        }
    ),
    index=INDEX,
)

INDEX_STATUS: Final = {
    "type": "object",
    "properties": {"tenant": TEXT, "index": INDEX},
    "required": ["tenant", "index"],
}
SEMANTIC_WEIGHT: Final = exactly(
    tenant=TEXT, percent={"type": "integer", "minimum": 0, "maximum": 100}
)
WARM_REQUEST: Final = fields(
    (),
    pin_ms={**COUNT, "default": 0, "description": "Keep it from eviction for so long."},
    wait_ms={**COUNT, "description": "Wait so long for it; it comes all the same."},
    tenants={**list_of(TEXT), "description": "With an operator's key: which ones."},
)
_WARMTH: Final[Mapping[str, Schema]] = {
    "resident": FLAG,
    "temperature": TEMPERATURE,
    "version": or_null(COUNT),
    "bytes": COUNT,
    "activated_ms": {**COUNT, "description": "0 when it was here already."},
    "pinned_ms": {**COUNT, "description": "0 when it is not pinned, for want of room perhaps."},
    "reason": {**TEXT, "description": "Why it is not here."},
}
WARM_RESULT: Final = {
    "oneOf": [
        fields(("resident", "temperature", "version", "bytes", "activated_ms"), **_WARMTH),
        exactly(tenants=list_of(fields(("tenant", "resident"), tenant=TEXT, **_WARMTH))),
    ]
}
ANALYSIS: Final = exactly(
    tokenizer={**COUNT, "description": "The tokenizer's version."},
    streams=ANY_OBJECT,
    query=or_null(ANY_OBJECT),
)

RECEIPT: Final = exactly(
    tenant=TEXT,
    file={**TEXT, "description": "Its file's name: what its objects lie below."},
    requested_at=MS,
    deleted_at=MS,
    documents={**or_null(COUNT), "description": "What it held; null when nobody could tell."},
    version=or_null(COUNT),
    epochs=list_of(COUNT),
    objects_deleted={**COUNT, "description": "Counted anew after a crash: `attempts` above 1."},
    bytes_deleted=COUNT,
    objects_remaining={"const": 0},
    local_files_removed=COUNT,
    announced={"const": True},
    attempts={"type": "integer", "minimum": 1},
    readers=TEXT,
)
TENANT: Final = exactly(
    name=TEXT,
    state={"enum": ["active", "suspended", "deleting", "deleted"]},
    epoch=COUNT,
    shard={"type": "string", "description": "Whose writer has its file."},
    moving_to=or_null({"type": "string"}),
    created_at=MS,
    deletion=or_null(
        exactly(
            requested_at=MS,
            receipt=or_null(RECEIPT),
            trouble={**or_null(TEXT), "description": "Why it is not done yet."},
        )
    ),
)
RESTORE_REQUEST: Final = fields(("at",), at=TIME, dry_run={**FLAG, "default": False})
RESTORE_RESULT: Final = exactly(
    tenant=TEXT,
    dry_run=FLAG,
    from_version=COUNT,
    version={**COUNT, "description": "The version it has now; greater than any before."},
    at=MS,
    restored_to={**MS, "description": "The last batch it holds was committed then."},
    restored_version={**COUNT, "description": "The version that batch had made."},
    documents=COUNT,
    announced={**FLAG, "description": "Readers know. When false, they will."},
)
TENANTS: Final = exactly(tenants=list_of(TENANT))
KEY_REQUEST: Final = fields(
    ("scopes",),
    tenant=or_null(TEXT),
    scopes=list_of({"enum": list(SCOPES)}),
    label=TEXT,
    expires_at=or_null(MS),
)
KEY_RESULT: Final = exactly(
    key=TEXT,
    id=COUNT,
    tenant=or_null(TEXT),
    scopes=list_of(TEXT),
    label=TEXT,
    created_at=MS,
    expires_at=or_null(MS),
    revoked_at=or_null(MS),
)

HEALTH: Final = {
    "type": "object",
    "properties": {"ready": FLAG, "reasons": list_of(TEXT), "role": TEXT},
    "required": ["ready", "reasons", "role"],
}
PROBLEM: Final = {
    "type": "object",
    "properties": {
        "type": {"type": "string", "format": "uri-reference"},
        "title": TEXT,
        "status": COUNT,
        "detail": TEXT,
        "hint": TEXT,
        "request_id": TEXT,
    },
    "required": ["type", "title", "status", "detail", "hint", "request_id"],
}
