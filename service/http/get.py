"""`/v1/documents:get`: whole documents by kind and ref, within bytes and tokens."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest
from service.http import markdown
from service.http.answers import index_block
from service.http.auth import tenant_with
from service.http.fields import Fields
from service.http.layers import Reply, answer, as_json, limit_of, wants_markdown
from service.http.node import Node, Opened, node_of
from service.http.requests import read_fields
from service.http.snapshots import read_file
from service.search.whole import Whole, fill
from service.tenancy.records import Tenant
from service.text.tokens import bound_tokens

TOKEN_BYTES: Final = 8
"""A text of so many bytes a token is no text; more room need not be tried."""

NOTICES_LEAST: Final = 3
"""Documents leave room for so many names of what is cut, missing or left out."""


async def get(request: Request) -> Response:
    """`POST /v1/documents:get`."""
    node = node_of(request)
    tenant = await tenant_with(node, request, "search")
    fields = await read_fields(request, node.settings)
    limit_tokens = limit_of(fields)
    render = wants_markdown(request)
    reply = await read(node, tenant, fields, limit_tokens, as_markdown=render)
    return answer(request, reply, limit_tokens)


async def read(
    node: Node, tenant: Tenant, fields: Fields, limit_tokens: int | None, *, as_markdown: bool
) -> Reply:
    """The documents that the fields ask for, cut to fit the form they will be sent in.

    Raises:
        InvalidRequest: the fields ask for nothing.
        Unavailable: the tenant's file is not here in time.
    """
    settings = node.settings
    keys = [_key(node, item) for item in fields.objects("refs", most=settings.get_refs)]
    if not keys:
        raise InvalidRequest("`refs` names no document", hint='Send {"refs": [{"kind", "ref"}]}.')
    vectors = fields.flag("vectors", False)
    if vectors and as_markdown:
        raise InvalidRequest("`vectors` come in JSON only", hint="Accept application/json.")
    most_bytes = fields.integer("max_bytes", settings.get_bytes, least=1, most=settings.get_bytes)
    fields.done()
    work = partial(_read, keys, most_bytes, limit_tokens, vectors, as_markdown)
    return await read_file(node, tenant, work)


def _read(
    keys: list[tuple[str, str]],
    most_bytes: int,
    limit_tokens: int | None,
    vectors: bool,
    as_markdown: bool,
    opened: Opened,
) -> Reply:
    index = index_block(opened)

    def within(room: int) -> Reply:
        return _reply(fill(opened.reader, keys, room, vectors=vectors), index)

    def fits(reply: Reply) -> bool:
        some = dataclasses.replace(reply, rows=min(reply.rows, NOTICES_LEAST))
        text = some.text(reply.markdown if as_markdown else as_json, None)
        return limit_tokens is None or bound_tokens(text) <= limit_tokens

    if limit_tokens is not None:
        most_bytes = min(most_bytes, limit_tokens * TOKEN_BYTES)
    best = within(most_bytes)
    if fits(best):
        return best
    low, high, best = 0, most_bytes, within(0)
    while low < high - max(16, high // 64):  # as near as matters
        middle = (low + high) // 2
        tried = within(middle)
        if fits(tried):
            low, best = middle, tried
        else:
            high = middle
    return best


def _reply(found: Whole, index: dict[str, object]) -> Reply:
    """Rows are what is said about what is not there whole: it has to fit as well."""
    notices = [
        *(("cut", each) for each in found.cut),
        *(("missing", each) for each in found.missing),
        *(("left_out", each) for each in found.left_out),
    ]

    def body(count: int) -> dict[str, Any]:
        told: dict[str, Any] = {"documents": found.documents}
        for title in ("missing", "cut", "left_out"):
            told[title] = [each for kind, each in notices[:count] if kind == title]
        return told | {"unnamed": len(notices) - count, "index": index}

    return Reply(body, lambda _: sum(found.full), len(notices), markdown.documents)


def _key(node: Node, fields: Fields) -> tuple[str, str]:
    settings = node.settings
    kind = fields.text("kind", most_chars=settings.kind_bytes, limit="kind_bytes")
    ref = fields.text("ref", most_chars=settings.ref_bytes, limit="ref_bytes")
    fields.done()
    return kind, ref
