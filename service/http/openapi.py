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

from service.http.problems import PROBLEMS
from service.http.schemas import (
    ANALYSIS,
    BATCH_LINE,
    BATCH_RESULT,
    DOCUMENTS,
    GET_REQUEST,
    HEALTH,
    INDEX_STATUS,
    KEY_REQUEST,
    KEY_RESULT,
    PROBLEM,
    RESTORE_REQUEST,
    RESTORE_RESULT,
    SEARCH_PARAMETERS,
    SEARCH_REQUEST,
    SEARCH_RESULT,
    SEMANTIC_WEIGHT,
    TENANT,
    TENANTS,
    WARM_REQUEST,
    WARM_RESULT,
    Schema,
    fields,
    parameter,
)

_NAMED: Final[Mapping[str, Schema]] = {
    "SearchRequest": SEARCH_REQUEST,
    "SearchResult": SEARCH_RESULT,
    "GetRequest": GET_REQUEST,
    "Documents": DOCUMENTS,
    "BatchLine": BATCH_LINE,
    "BatchResult": BATCH_RESULT,
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
        "/v1/search": {
            "post": _call("Search. Scope `search`.", "SearchResult", body="SearchRequest"),
            "get": _call(
                "Search, with the same fields as parameters. Scope `search`.",
                "SearchResult",
                parameters=SEARCH_PARAMETERS,
            ),
        },
        "/v1/documents:get": {
            "post": _call("Whole documents. Scope `search`.", "Documents", body="GetRequest")
        },
        "/v1/documents:batch": {"post": _batch()},
        "/v1/index": {
            "get": _call("What the index holds and how fresh it is here.", "IndexStatus")
        },
        "/v1/index:warm": {
            "post": _call(
                "Have a tenant on this node and keep it a while. Scope `search` for the key's own "
                "tenant; scope `operator` for those that `tenants` names.",
                "WarmResult",
                body="WarmRequest",
            )
        },
        "/v1/index:semantic": {
            "post": _call(
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
            "post": _call(
                "How a text is cut into terms, and how it would be read as a query.",
                "Analysis",
                body=fields(required=("text",), text={"type": "string"}),
            )
        },
        "/v1/admin/tenants": {
            "get": _call("All tenants. Scope `operator`; writer only.", "Tenants"),
            "post": _call(
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
            "post": _call(
                "Make a key; it is shown this once. Scope `operator`, or `admin` for the key's "
                "own tenant; writer only.",
                "KeyResult",
                body="KeyRequest",
                status="201",
            )
        },
        "/v1/openapi.json": {"get": _open("This document.", {"type": "object"})},
        "/v1/problems/{slug}": {
            "get": _open(
                "What a problem's `type` means.",
                {"type": "object"},
                parameters=[parameter("slug", {"type": "string"}, where="path", required=True)],
            )
        },
        "/healthz": {"get": _open("This worker is alive.", {"type": "object"})},
        "/readyz": {"get": _ready()},
    }


_TENANT_NAME: Final = [parameter("name", {"type": "string"}, where="path", required=True)]


def _lifecycle() -> dict[str, Any]:
    one = "/v1/admin/tenants/{name}"
    delete = _call(
        "Delete a tenant for good, with a receipt. Again: the same receipt. Its name is not given "
        "out again. Scope `operator`; writer only.",
        "Tenant",
        parameters=_TENANT_NAME,
    )
    delete["responses"]["202"] = {
        "description": "Its keys are dead; the rest goes on, ask again.",
        "content": _json(_ref("Tenant")),
    }
    return {
        one: {
            "get": _call(
                "One tenant, and the receipt if it was deleted. Scope `operator`; writer only.",
                "Tenant",
                parameters=_TENANT_NAME,
            ),
            "delete": delete,
        },
        f"{one}:move": {
            "post": _call(
                "Have another shard's writer take a tenant over; 202: it goes on, ask again. "
                "Scope `operator`; writer of the shard `main` only.",
                "Tenant",
                body=fields(required=("to",), to={"type": "string"}),
                parameters=_TENANT_NAME,
            )
        },
        f"{one}:suspend": {
            "post": _call(
                "Refuse a tenant's keys (403, tenant-suspended); nothing is lost. Scope "
                "`operator`; writer only.",
                "Tenant",
                parameters=_TENANT_NAME,
            )
        },
        f"{one}:resume": {
            "post": _call(
                "Take a suspended tenant's keys again. Scope `operator`; writer only.",
                "Tenant",
                parameters=_TENANT_NAME,
            )
        },
        f"{one}:restore": {
            "post": _call(
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
    call = _call(
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
    call["responses"]["200"] = {"description": "The file.", "headers": headers, "content": content}
    return call


def _call(
    summary: str,
    answer: str,
    *,
    body: str | Schema | None = None,
    status: str = "200",
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    call: dict[str, Any] = {
        "summary": summary,
        "responses": {
            status: {"description": "Done.", "content": _json(_ref(answer))},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if body is not None:
        schema = _ref(body) if isinstance(body, str) else body
        call["requestBody"] = {"required": True, "content": _json(schema)}
    if parameters:
        call["parameters"] = parameters
    return call


def _batch() -> dict[str, Any]:
    call = _call(
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
    call["requestBody"] = {
        "required": True,
        "content": {"application/x-ndjson": {"schema": _ref("BatchLine")}},
    }
    return call


def _open(
    summary: str, schema: Schema, *, parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A call that needs no key."""
    call: dict[str, Any] = {
        "summary": summary,
        "security": [],
        "responses": {
            "200": {"description": "Done.", "content": _json(schema)},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if parameters:
        call["parameters"] = parameters
    return call


def _ready() -> dict[str, Any]:
    call = _open("Whether this node can serve, and if not, why.", _ref("Health"))
    call["responses"]["503"] = {"description": "Not ready.", "content": _json(_ref("Health"))}
    return call


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _problem_content() -> dict[str, Any]:
    return {"application/problem+json": {"schema": _ref("Problem")}}


def _problems() -> str:
    return "; ".join(f"{row.status} {row.slug}" for row in PROBLEMS.values())
