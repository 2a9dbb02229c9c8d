"""`/v1/search`: one query over one tenant's file."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest
from service.http.answers import index_block, json_answer, note_phases
from service.http.auth import tenant_with
from service.http.fields import LAST_MS, Fields, read_flag, read_integer
from service.http.node import Node, Opened, node_of
from service.http.requests import query_fields, read_fields
from service.http.snapshots import read_file
from service.search.request import Hit, SearchRequest, SearchResult
from service.semantic.state import SemanticOutcome
from service.settings import Settings

CURSOR_CHARS: Final = 1_024
KINDS: Final = 32
"""Most kinds one search asks for."""
LAST_VERSION: Final = 2**53 - 1
"""The greatest version JSON carries exactly to every client (RFC 8259, section 6)."""


async def search(request: Request) -> Response:
    """`POST /v1/search`, or `GET` with the same fields as parameters."""
    node = node_of(request)
    with node.telemetry.search_span(request.headers):
        return await _answer(node, request)


async def _answer(node: Node, request: Request) -> Response:
    begun = time.perf_counter()
    tenant = await tenant_with(node, request, "search")
    if request.method == "POST":
        fields = await read_fields(request, node.settings)
    else:
        fields = query_fields(request, _PARAMETERS)
    deadline_ms = _semantic_deadline_ms(fields, node.settings)
    wanted = _search_request(fields, node.settings)
    min_version = fields.integer("min_version", None, least=0, most=LAST_VERSION)
    max_staleness_ms = fields.integer("max_staleness_ms", None, least=0, most=LAST_MS)
    fields.done()
    result, outcome, index = await read_file(
        node,
        tenant,
        partial(_search, node, wanted, deadline_ms, begun),
        min_version=min_version,
        max_staleness_ms=max_staleness_ms,
    )
    took_ms = {**result.took_ms, "total": (time.perf_counter() - begun) * 1_000}
    node.telemetry.answered(outcome, took_ms)
    note_phases(request, took_ms)
    return json_answer(
        {
            "hits": [_hit(hit) for hit in result.hits],
            "cursor": result.cursor,
            "read_as": result.read_as,
            **({"explain": result.explain} if wanted.explain else {}),
            "semantic": outcome.body(),
            "index": index,
            "took_ms": {phase: round(value, 3) for phase, value in took_ms.items()},
        },
        headers={"memlane-semantic": outcome.header()},
    )


def _search(
    node: Node, wanted: SearchRequest, asked_ms: int | None, begun: float, opened: Opened
) -> tuple[SearchResult, SemanticOutcome, dict[str, object]]:
    left_ms = node.settings.search_deadline_ms - (time.perf_counter() - begun) * 1_000
    attempt = node.lane.attempt(opened.reader, wanted, asked_ms=asked_ms, budget_ms=left_ms)
    result = node.search(opened.reader, wanted, attempt)
    return result, attempt.outcome, index_block(opened)


def _semantic_deadline_ms(fields: Fields, settings: Settings) -> int | None:
    semantic = fields.nested("semantic")
    deadline_ms = semantic.integer("deadline_ms", None, least=0, most=settings.search_deadline_ms)
    semantic.done()
    return deadline_ms


def _search_request(fields: Fields, settings: Settings) -> SearchRequest:
    after, before = fields.time_ms("updated_after"), fields.time_ms("updated_before")
    if after is not None and before is not None and after > before:
        raise InvalidRequest("`updated_after` is later than `updated_before`")
    return SearchRequest(
        q=fields.text("q", most_chars=settings.query_chars, limit="query_chars"),
        limit=fields.integer("limit", 10, least=1, most=settings.hits_count),
        cursor=fields.optional_text("cursor", most_chars=CURSOR_CHARS),
        kinds=fields.texts("kinds", most=KINDS, most_bytes=settings.kind_bytes, limit="kind_bytes"),
        refs=fields.texts(
            "refs", most=settings.get_refs, most_bytes=settings.ref_bytes, limit="ref_bytes"
        ),
        updated_after_ms=after,
        updated_before_ms=before,
        explain=fields.flag("explain", False),
    )


def _hit(hit: Hit) -> dict[str, Any]:
    return {
        "kind": hit.kind,
        "ref": hit.ref,
        "title": hit.title,
        "score": hit.score,
        "components": hit.components,
        "snippet": hit.snippet,
        "marks": [list(mark) for mark in hit.marks],
        "updated_at": hit.updated_at,
        "tokens": hit.tokens,
    }


def _time(text: str) -> int | str:
    return read_integer(text) if text.isdecimal() else text


def _some(text: str) -> list[str]:
    return [text]


_PARAMETERS: Final[dict[str, Callable[[str], object]]] = {
    "q": str,
    "limit": read_integer,
    "cursor": str,
    "kinds": _some,
    "refs": _some,
    "updated_after": _time,
    "updated_before": _time,
    "min_version": read_integer,
    "max_staleness_ms": read_integer,
    "explain": read_flag,
}
