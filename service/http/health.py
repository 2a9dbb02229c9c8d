"""`/healthz`: alive. `/readyz`: able to serve, or why not."""

from __future__ import annotations

from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Unavailable
from service.http.answers import json_answer
from service.http.node import Node, node_of
from service.http.problems import describe


async def alive(request: Request) -> Response:
    """`GET /healthz`: this worker answers; nothing else is looked at."""
    return json_answer({"status": "ok", "role": node_of(request).role})


async def ready(request: Request) -> Response:
    """`GET /readyz`: 200 when this node can serve, else 503, with the reasons."""
    health = await run_sync(health_of, node_of(request))
    return json_answer(health, status=200 if health["ready"] else 503)


async def problem(request: Request) -> Response:
    """`GET /v1/problems/{slug}`: what a problem's `type` means."""
    return json_answer(describe(request.path_params["slug"]))


def health_of(node: Node) -> dict[str, Any]:
    """What `readyz` says. Called in a thread."""
    health = dict(node.files.health())
    reasons = list(health.get("reasons", ()))
    try:
        registry_version: int | None = node.view.version()
    except Unavailable as error:
        registry_version = None
        reasons.append(error.detail)
    backfill = None if node.writer is None else node.writer.backfill
    return {
        **health,
        "role": node.role,
        "registry_version": registry_version,
        "semantic": {
            f"{state}/{reason}" if reason else state: count
            for (_, state, reason), count in node.telemetry.totals().items()
        },
        "spans": node.telemetry.spans(),
        **({"backfill": backfill()} if backfill is not None else {}),
        "ready": bool(health["ready"]) and registry_version is not None,
        "reasons": reasons,
    }
