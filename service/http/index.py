"""`/v1/index`: what a tenant's file holds and how fresh it is here, and what its vectors weigh."""

from __future__ import annotations

from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest
from service.http.answers import index_block, json_answer
from service.http.auth import tenant_with
from service.http.node import Opened, WriterParts, node_of, writer_of
from service.http.requests import read_fields
from service.http.snapshots import read_file
from service.index.vectors import PERCENT_FULL


async def status(request: Request) -> Response:
    """`GET /v1/index`."""
    node = node_of(request)
    tenant = await tenant_with(node, request, "search")
    return json_answer({"tenant": tenant.name, **await read_file(node, tenant, _status)})


def _status(opened: Opened) -> dict[str, object]:
    return {**opened.reader.status(), "index": index_block(opened)}


async def weigh(request: Request) -> Response:
    """`POST /v1/index:semantic`: `{"percent"}` of the default that vectors weigh for this tenant.

    Scope `admin`; only the writer does it. 0 turns the semantic lane off.
    """
    node = node_of(request)
    tenant = await tenant_with(node, request, "admin")
    writer = writer_of(node)
    fields = await read_fields(request, node.settings)
    percent = fields.integer("percent", None, least=0, most=PERCENT_FULL)
    fields.done()
    if percent is None:
        raise InvalidRequest("`percent` is missing", hint="Send 0 to 100; 0 turns vectors off.")
    await node.batches.run(partial(_weigh, writer, tenant.file, percent))
    return json_answer({"tenant": tenant.name, "percent": percent})


def _weigh(writer: WriterParts, file: str, percent: int) -> None:
    with writer.tenants.vectors(file) as vectors:
        vectors.weigh(percent)
