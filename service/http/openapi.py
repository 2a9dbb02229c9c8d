"""`/v1/openapi.json`: the interface, written by hand so that it says what we mean.

A test holds it equal to the routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.http.openapi_calls import call, json_of, open_call, ref
from service.http.openapi_operator import OPERATED_TENANT, OVERVIEW, STORY, operating
from service.http.openapi_reading import reading
from service.http.problems import PROBLEMS
from service.http.schemas import (
    ANALYSIS,
    BATCH_LINE,
    BATCH_RESULT,
    HEALTH,
    INDEX_STATUS,
    KEY_REQUEST,
    KEY_RESULT,
    MANIFEST,
    MANIFEST_ROWS,
    PROBLEM,
    RESTORE_REQUEST,
    RESTORE_RESULT,
    SEMANTIC_WEIGHT,
    TENANT,
    TENANTS,
    WARM_REQUEST,
    WARM_RESULT,
)
from service.http.schemas_reading import (
    BOUNDED_RESULT,
    COMPACT_RESULT,
    DOCUMENTS,
    GET_REQUEST,
    PREFETCH_REQUEST,
    PREFETCHED,
    SEARCH_REQUEST,
    SEARCH_RESULT,
    TIMELINE,
    TIMELINE_REQUEST,
)
from service.http.shapes import (
    Schema,
    fields,
    parameter,
)

_NAMED: Final[Mapping[str, Schema]] = {
    "SearchRequest": SEARCH_REQUEST,
    "SearchResult": SEARCH_RESULT,
    "CompactResult": COMPACT_RESULT,
    "BoundedResult": BOUNDED_RESULT,
    "TimelineRequest": TIMELINE_REQUEST,
    "Timeline": TIMELINE,
    "PrefetchRequest": PREFETCH_REQUEST,
    "Prefetched": PREFETCHED,
    "GetRequest": GET_REQUEST,
    "Documents": DOCUMENTS,
    "BatchLine": BATCH_LINE,
    "BatchResult": BATCH_RESULT,
    "Manifest": MANIFEST,
    "ManifestRows": MANIFEST_ROWS,
    "IndexStatus": INDEX_STATUS,
    "WarmRequest": WARM_REQUEST,
    "WarmResult": WARM_RESULT,
    "SemanticWeight": SEMANTIC_WEIGHT,
    "Analysis": ANALYSIS,
    "Tenant": TENANT,
    "Tenants": TENANTS,
    "RestoreRequest": RESTORE_REQUEST,
    "RestoreResult": RESTORE_RESULT,
    "KeyRequest": KEY_REQUEST,
    "KeyResult": KEY_RESULT,
    "Overview": OVERVIEW,
    "OperatedTenant": OPERATED_TENANT,
    "Story": STORY,
    "Health": HEALTH,
    "Problem": PROBLEM,
}


async def document(_: Request) -> Response:
    """`GET /v1/openapi.json`."""
    return Response(orjson.dumps(openapi()), media_type="application/json")


@cache
def openapi() -> dict[str, Any]:
    """The OpenAPI 3.1 document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Memlane",
            "version": "1",
            "description": "Search over the memory of people who work with AI agents. Every "
            "refusal is a problem (RFC 9457); every answer carries X-Request-Id and "
            "Server-Timing.",
        },
        "security": [{"key": []}],
        "paths": _paths(),
        "components": {
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
            "schemas": dict(_NAMED),
            "responses": {"Problem": {"description": _problems(), "content": _problem_content()}},
        },
    }


def _paths() -> dict[str, Any]:
    return {
        **reading(),
        **operating(),
        "/v1/documents:batch": {"post": _batch()},
        **_manifest(),
        "/v1/index": {"get": call("What the index holds and how fresh it is here.", "IndexStatus")},
        "/v1/index:warm": {
            "post": call(
                "Have a tenant on this node and keep it a while. Scope `search` for the key's own "
                "tenant; scope `operator` for those that `tenants` names.",
                "WarmResult",
                body="WarmRequest",
            )
        },
        "/v1/index:semantic": {
            "post": call(
                "What vectors weigh for this tenant, in percent of the default; 0 turns them off."
                " Scope `admin`; writer only.",
                "SemanticWeight",
                body=fields(
                    required=("percent",),
                    percent={"type": "integer", "minimum": 0, "maximum": 100},
                ),
            )
        },
        "/v1/analyze": {
            "post": call(
                "How a text is cut into terms, and how it would be read as a query.",
                "Analysis",
                body=fields(required=("text",), text={"type": "string"}),
            )
        },
        "/v1/admin/tenants": {
            "get": call("All tenants. Scope `operator`; writer only.", "Tenants"),
            "post": call(
                "Create a tenant. Scope `operator`; writer only.",
                "Tenant",
                body=fields(
                    required=("name",),
                    name={"type": "string", "maxLength": 63},
                    shard={"type": "string", "default": "main"},
                ),
                status="201",
            ),
        },
        **_lifecycle(),
        "/v1/export": {"get": _export()},
        "/v1/admin/keys": {
            "post": call(
                "Make a key; it is shown this once. Scope `operator`, or `admin` for the key's "
                "own tenant; writer only.",
                "KeyResult",
                body="KeyRequest",
                status="201",
            )
        },
        "/v1/openapi.json": {"get": open_call("This document.", {"type": "object"})},
        "/v1/problems/{slug}": {
            "get": open_call(
                "What a problem's `type` means.",
                {"type": "object"},
                parameters=[parameter("slug", {"type": "string"}, where="path", required=True)],
            )
        },
        "/healthz": {"get": open_call("This worker is alive.", {"type": "object"})},
        "/readyz": {"get": _ready()},
    }


def _manifest() -> dict[str, Any]:
    least = parameter("min_version", {"type": "integer", "minimum": 0})
    bucket = parameter(
        "bucket",
        {"type": "string", "pattern": "^[0-9a-f]{1,2}$"},
        where="path",
        required=True,
        about="The first one or two hex digits of the keys.",
    )
    return {
        "/v1/manifest": {
            "get": call(
                "A digest of each of the 256 buckets of documents. Scope `sync`.",
                "Manifest",
                parameters=[least],
            )
        },
        "/v1/manifest/{bucket}": {
            "get": call(
                "What the documents of a bucket are, by key. Scope `sync`.",
                "ManifestRows",
                parameters=[bucket, least],
            )
        },
    }


_TENANT_NAME: Final = [parameter("name", {"type": "string"}, where="path", required=True)]


def _lifecycle() -> dict[str, Any]:
    one = "/v1/admin/tenants/{name}"
    delete = call(
        "Delete a tenant for good, with a receipt. Again: the same receipt. Its name is not given "
        "out again. Scope `operator`; writer only.",
        "Tenant",
        parameters=_TENANT_NAME,
    )
    delete["responses"]["202"] = {
        "description": "Its keys are dead; the rest goes on, ask again.",
        "content": json_of(ref("Tenant")),
    }
    return {
        one: {
            "get": call(
                "One tenant, and the receipt if it was deleted. Scope `operator`; writer only.",
                "Tenant",
                parameters=_TENANT_NAME,
            ),
            "delete": delete,
        },
        f"{one}:move": {
            "post": call(
                "Have another shard's writer take a tenant over; 202: it goes on, ask again. "
                "Scope `operator`; writer of the shard `main` only.",
                "Tenant",
                body=fields(required=("to",), to={"type": "string"}),
                parameters=_TENANT_NAME,
            )
        },
        f"{one}:suspend": {
            "post": call(
                "Refuse a tenant's keys (403, tenant-suspended); nothing is lost. Scope "
                "`operator`; writer only.",
                "Tenant",
                parameters=_TENANT_NAME,
            )
        },
        f"{one}:resume": {
            "post": call(
                "Take a suspended tenant's keys again. Scope `operator`; writer only.",
                "Tenant",
                parameters=_TENANT_NAME,
            )
        },
        f"{one}:restore": {
            "post": call(
                "Bring a tenant back to the last batch committed at or before a moment, as a new "
                "version. Scope `operator`; writer only.",
                "RestoreResult",
                body="RestoreRequest",
                parameters=_TENANT_NAME,
            )
        },
    }


def _export() -> dict[str, Any]:
    whole = {"type": "integer", "minimum": 0}
    made = call(
        "The tenant's own SQLite file, of one moment. Scope `admin`; with scope `operator`, of the "
        "tenant that is named.",
        "Tenant",
        parameters=[
            parameter("tenant", {"type": "string"}, about="With an operator's key: whose."),
            parameter("min_version", whole),
            parameter("max_staleness_ms", whole),
        ],
    )
    headers = {
        "Memlane-Index-Version": {"schema": whole, "description": "The version it holds."},
        "Memlane-Index-Documents": {"schema": whole, "description": "How many documents it holds."},
        "Memlane-Index-As-Of": {"schema": {"type": "string", "format": "date-time"}},
        "Memlane-Index-Age-Ms": {"schema": whole, "description": "How old that was on this node."},
    }
    content = {"application/vnd.sqlite3": {"schema": {"type": "string", "format": "binary"}}}
    made["responses"]["200"] = {"description": "The file.", "headers": headers, "content": content}
    return made


def _batch() -> dict[str, Any]:
    made = call(
        "Upsert and delete documents, one a line. Scope `sync`; writer only.",
        "BatchResult",
        parameters=[
            parameter(
                "atomic",
                {"type": "boolean", "default": True},
                about="All lines or none. When false, lines that can be taken are kept.",
            ),
            parameter(
                "durability",
                {"enum": ["local", "replicated"], "default": "local"},
                about="`replicated` answers only when the object store has the batch.",
            ),
            parameter(
                "Idempotency-Key",
                {"type": "string", "pattern": "^[\\x21-\\x7e]{1,255}$"},
                where="header",
                about="The same key with the same body gets the first answer again.",
            ),
        ],
    )
    made["requestBody"] = {
        "required": True,
        "content": {"application/x-ndjson": {"schema": ref("BatchLine")}},
    }
    return made


def _ready() -> dict[str, Any]:
    made = open_call("Whether this node can serve, and if not, why.", ref("Health"))
    made["responses"]["503"] = {"description": "Not ready.", "content": json_of(ref("Health"))}
    return made


def _problem_content() -> dict[str, Any]:
    return {"application/problem+json": {"schema": ref("Problem")}}


def _problems() -> str:
    return "; ".join(f"{row.status} {row.slug}" for row in PROBLEMS.values())
