"""Every address this service answers, and what happens at those it does not."""

from __future__ import annotations

from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.errors import InvalidRequest, MemlaneError, NotFound
from service.http import (
    analyze,
    documents,
    export,
    get,
    health,
    index,
    keys,
    manifest,
    mcp,
    openapi,
    operator,
    prefetch,
    search,
    tenants,
    timeline,
    warm,
)
from service.http.middleware import STATE_ID
from service.http.problems import MethodNotAllowed, problem_response

ROUTES: Final = (
    Route("/v1/search", search.search, methods=["GET", "POST"]),
    Route("/v1/timeline", timeline.timeline, methods=["POST"]),
    Route("/v1/prefetch", prefetch.prefetch, methods=["POST"]),
    Route("/mcp", mcp.Endpoint(), methods=["POST"]),
    Route("/v1/documents:get", get.get, methods=["POST"]),
    Route("/v1/documents:batch", documents.write, methods=["POST"]),
    Route("/v1/manifest", manifest.digests),
    Route("/v1/manifest/{bucket}", manifest.rows),
    Route("/v1/index", index.status),
    Route("/v1/index:warm", warm.warm, methods=["POST"]),
    Route("/v1/index:semantic", index.weigh, methods=["POST"]),
    Route("/v1/analyze", analyze.analyze, methods=["POST"]),
    Route("/v1/admin/tenants", tenants.tenants, methods=["GET", "POST"]),
    Route("/v1/admin/tenants/{name}:suspend", tenants.suspend, methods=["POST"]),
    Route("/v1/admin/tenants/{name}:move", tenants.move, methods=["POST"]),
    Route("/v1/admin/tenants/{name}:resume", tenants.resume, methods=["POST"]),
    Route("/v1/admin/tenants/{name}:restore", tenants.restore, methods=["POST"]),
    Route("/v1/admin/tenants/{name}", tenants.tenant, methods=["GET", "DELETE"]),
    Route("/v1/operator/overview", operator.overview),
    Route("/v1/operator/tenants/{name}", operator.tenant),
    Route("/v1/operator/queries/{id}", operator.query),
    Route("/v1/admin/keys", keys.keys, methods=["POST"]),
    Route("/v1/export", export.export),
    Route("/v1/openapi.json", openapi.document),
    Route("/v1/problems/{slug}", health.problem),
    Route("/healthz", health.alive),
    Route("/readyz", health.ready),
)
"""The same on every node: what a reader does not do, it answers with where it is done."""


async def known_error(request: Request, error: Exception) -> Response:
    """An error raised on purpose."""
    assert isinstance(error, MemlaneError)
    return problem_response(error, getattr(request.state, STATE_ID))


async def http_error(request: Request, error: Exception) -> Response:
    """What the router refuses."""
    assert isinstance(error, HTTPException)
    known: MemlaneError
    if error.status_code == 404:
        known = NotFound("there is nothing at this address", hint="See /v1/openapi.json.")
    elif error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "").split(", ")
        known = MethodNotAllowed(
            "this address does not take this method", allow=tuple(sorted(allowed))
        )
    else:
        known = InvalidRequest("the request cannot be read")
    return await known_error(request, known)
