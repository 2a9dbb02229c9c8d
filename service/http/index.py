"""`/v1/index`: what a tenant's file holds and how fresh it is here."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from service.http.answers import index_block, json_answer
from service.http.auth import tenant_with
from service.http.node import Opened, node_of
from service.http.snapshots import read_file


async def status(request: Request) -> Response:
    """`GET /v1/index`."""
    node = node_of(request)
    tenant = await tenant_with(node, request, "search")
    return json_answer({"tenant": tenant.name, **await read_file(node, tenant, _status)})


def _status(opened: Opened) -> dict[str, object]:
    return {**opened.reader.status(), "index": index_block(opened)}
