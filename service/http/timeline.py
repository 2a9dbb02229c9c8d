"""`/v1/timeline`: what stood before and after a document."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from service.http import markdown
from service.http.answers import index_block
from service.http.auth import tenant_with
from service.http.fields import LAST_MS, Fields
from service.http.layers import Reply, answer, lean_index, limit_of
from service.http.node import Node, Opened, node_of
from service.http.requests import read_fields
from service.http.snapshots import read_file
from service.search.timeline import Timeline, TimelineRequest, around
from service.settings import Settings
from service.tenancy.records import Tenant

NEIGHBOURS: Final = 5
LAST_VERSION: Final = 2**53 - 1


async def timeline(request: Request) -> Response:
    """`POST /v1/timeline`."""
    node = node_of(request)
    tenant = await tenant_with(node, request, "search")
    fields = await read_fields(request, node.settings)
    limit_tokens = limit_of(fields)
    return answer(request, await look(node, tenant, fields), limit_tokens)


async def look(node: Node, tenant: Tenant, fields: Fields) -> Reply:
    """The timeline that the fields ask for.

    Raises:
        InvalidRequest: they ask for none.
        NotFound: there is no such document.
        Unavailable, ReplicaBehind: the tenant's file is not here, or not new enough, in time.
    """
    wanted = _wanted(fields, node.settings)
    min_version = fields.integer("min_version", None, least=0, most=LAST_VERSION)
    max_staleness_ms = fields.integer("max_staleness_ms", None, least=0, most=LAST_MS)
    fields.done()
    return await read_file(
        node,
        tenant,
        partial(_look, wanted),
        min_version=min_version,
        max_staleness_ms=max_staleness_ms,
    )


def _wanted(fields: Fields, settings: Settings) -> TimelineRequest:
    most = settings.timeline_rows
    return TimelineRequest(
        kind=fields.text("kind", most_chars=settings.kind_bytes, limit="kind_bytes"),
        ref=fields.text("ref", most_chars=settings.ref_bytes, limit="ref_bytes"),
        before=fields.integer("before", NEIGHBOURS, least=0, most=most),
        after=fields.integer("after", NEIGHBOURS, least=0, most=most),
        within_kind=fields.choice("within", "kind", among=("kind", "all")) == "kind",
    )


def _look(wanted: TimelineRequest, opened: Opened) -> Reply:
    return _reply(around(opened.reader, wanted), lean_index(index_block(opened)))


def _reply(found: Timeline, index: dict[str, Any]) -> Reply:
    """Rows are counted from the middle: the farthest are left out first."""
    rows = 1 + len(found.before) + len(found.after)

    def sides(count: int) -> tuple[int, int]:
        """How many neighbours are shown before and after."""
        count = max(0, count - 1)
        before = min(len(found.before), max((count + 1) // 2, count - len(found.after)))
        return before, min(len(found.after), count - before)

    def body(count: int) -> dict[str, Any]:
        before, after = sides(count)
        return {
            "before": [dataclasses.asdict(each) for each in _last(found.before, before)],
            "here": dataclasses.asdict(found.here) if count else None,
            "after": [dataclasses.asdict(each) for each in found.after[:after]],
            "left_out": rows - count,
            "index": index,
        }

    def full(count: int) -> int:
        before, after = sides(count)
        here = [found.here] if count else []
        shown = [*_last(found.before, before), *here, *found.after[:after]]
        return sum(each.tokens for each in shown)

    return Reply(body, full, rows, markdown.timeline)


def _last(moments: list[Any], count: int) -> list[Any]:
    return moments[len(moments) - count :]
