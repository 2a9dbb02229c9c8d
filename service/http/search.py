"""`/v1/search`: one query over one tenant's file."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest
from service.http import markdown
from service.http.answers import index_block, json_answer, note_phases
from service.http.auth import tenant_with
from service.http.fields import LAST_MS, Fields, read_flag, read_integer
from service.http.layers import Reply, answer, lean_index, limit_of, wants_markdown
from service.http.middleware import request_id
from service.http.node import Node, Opened, node_of
from service.http.requests import query_fields, read_fields
from service.http.snapshots import read_file
from service.http.telling import phased, searched
from service.search.layers import COLUMNS, LINE_TOKENS, ROW_TOKENS, compact, names_of
from service.search.request import Hit, SearchRequest, SearchResult
from service.semantic.state import SemanticOutcome
from service.settings import Settings
from service.tenancy.records import Tenant

CURSOR_CHARS: Final = 1_024
KINDS: Final = 32
"""Most kinds one search asks for."""
LAST_VERSION: Final = 2**53 - 1
"""The greatest version JSON carries exactly to every client (RFC 8259, section 6)."""


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """What a caller wants; `compact` and `limit_tokens` are about the answer's form."""

    request: SearchRequest
    semantic_deadline_ms: int | None
    min_version: int | None
    max_staleness_ms: int | None
    compact: bool
    limit_tokens: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Answered:
    """What was found, how it went, from what, and how long it took by phase."""

    result: SearchResult
    outcome: SemanticOutcome
    index: dict[str, object]
    took_ms: dict[str, float]


class _Done(NamedTuple):
    """What a thread did: when it began since the request came, and what that cost it."""

    result: SearchResult
    outcome: SemanticOutcome
    block: dict[str, object]
    begin_ms: float
    cpu_ms: float


async def search(request: Request) -> Response:
    """`POST /v1/search`, or `GET` with the same fields as parameters."""
    node = node_of(request)
    with node.telemetry.span("search"):
        begun = time.perf_counter()
        tenant = await tenant_with(node, request, "search")
        if request.method == "POST":
            fields = await read_fields(request, node.settings)
        else:
            fields = query_fields(request, _PARAMETERS)
        asked = asked_by(fields, node.settings)
        found = await find(node, tenant, asked, begun, request_id(request))
    note_phases(request, found.took_ms)
    headers = {"memlane-semantic": found.outcome.header()}
    if asked.compact or asked.limit_tokens is not None or wants_markdown(request):
        reply = reply_of(asked, found, as_markdown=wants_markdown(request))
        return answer(request, reply, asked.limit_tokens, headers=headers)
    return json_answer(_whole(asked.request, found), headers=headers)


def asked_by(fields: Fields, settings: Settings, *, layer: str = "hits") -> Asked:
    """Read a search's fields; there may be no others, and `layer` is that of who names none.

    Raises:
        InvalidRequest: one is not what it must be.
    """
    deadline_ms = _semantic_deadline_ms(fields, settings)
    request = _search_request(fields, settings)
    asked = Asked(
        request=request,
        semantic_deadline_ms=deadline_ms,
        min_version=fields.integer("min_version", None, least=0, most=LAST_VERSION),
        max_staleness_ms=fields.integer("max_staleness_ms", None, least=0, most=LAST_MS),
        compact=fields.choice("layer", layer, among=("hits", "compact")) == "compact",
        limit_tokens=limit_of(fields),
    )
    if request.explain and (asked.compact or asked.limit_tokens is not None):
        raise InvalidRequest("`explain` is for the layer `hits` without `limit_tokens`")
    fields.done()
    return asked


async def find(node: Node, tenant: Tenant, asked: Asked, begun: float, request_id: str) -> Answered:
    """Search, and count what became of the semantic lane.

    Args:
        node: this worker.
        tenant: whose file.
        asked: what is wanted.
        begun: when the request came, of `time.perf_counter`.
        request_id: the request's.

    Raises:
        InvalidCursor: the cursor is not one of ours or belongs to another query.
        Unavailable, ReplicaBehind: the tenant's file is not here, or not new enough, in time.
    """
    open_ms: dict[str, float] = {}
    work = await read_file(
        node,
        tenant,
        partial(_search, node, asked.request, asked.semantic_deadline_ms, begun),
        min_version=asked.min_version,
        max_staleness_ms=asked.max_staleness_ms,
        took_ms=open_ms,
    )
    result, outcome, index = work.result, work.outcome, work.block
    took_ms = open_ms | result.took_ms | {"total": (time.perf_counter() - begun) * 1_000}
    told = searched(
        *(request_id, tenant, outcome, took_ms, index),
        begin_ms=max(0.0, work.begin_ms - open_ms["open"]),
        cpu_ms=work.cpu_ms,
    )
    node.telemetry.answered(outcome, took_ms, result.parts, told=told)
    return Answered(result, outcome, index, took_ms)


def reply_of(asked: Asked, found: Answered, *, as_markdown: bool) -> Reply:
    """The page with what it costs, in the layer that was asked for."""
    hits = found.result.hits
    rows: dict[str, Any] = {"hits": [_hit(hit) for hit in hits]}
    if asked.compact:
        rows = compact_rows(hits, as_markdown=as_markdown)

    def body(count: int) -> dict[str, Any]:
        return rows | {
            "hits": rows["hits"][:count],
            "left_out": len(hits) - count,
            "cursor": found.result.after(count),
            "semantic": lean_semantic(found.outcome),
            "index": lean_index(found.index),
        }

    def full(count: int) -> int:
        return sum(hit.tokens for hit in hits[:count])

    return Reply(body, full, len(hits), markdown.search if asked.compact else markdown.hits)


def compact_rows(hits: list[Hit], *, as_markdown: bool) -> dict[str, Any]:
    """Hits as rows sized for the form they are sent in, with the names of what stands in them."""
    row_tokens = LINE_TOKENS if as_markdown else ROW_TOKENS
    return {
        "columns": COLUMNS,
        "components": names_of(hits),
        "hits": [row.cells() for row in compact(hits, row_tokens)],
    }


def lean_semantic(outcome: SemanticOutcome) -> dict[str, object]:
    """What every answer says about its semantic lane: `state` and `reason`."""
    body = outcome.body()
    return {name: body[name] for name in ("state", "reason")}


def _whole(request: SearchRequest, found: Answered) -> dict[str, object]:
    result = found.result
    return {
        "hits": [_hit(hit) for hit in result.hits],
        "cursor": result.cursor,
        "read_as": result.read_as,
        **({"explain": result.explain} if request.explain else {}),
        "semantic": found.outcome.body(),
        "index": found.index,
        "took_ms": {phase: round(value, 3) for phase, value in found.took_ms.items()},
    }


def _search(
    node: Node, wanted: SearchRequest, asked_ms: int | None, begun: float, opened: Opened
) -> _Done:
    begin_ms, cpu_s = (time.perf_counter() - begun) * 1_000, time.thread_time()
    left_ms = node.settings.search_deadline_ms - begin_ms
    attempt = node.lane.attempt(opened.reader, wanted, asked_ms=asked_ms, budget_ms=left_ms)
    result = node.search(opened.reader, wanted, attempt)
    result = phased(result, attempt.took_ms)
    cpu_ms = (time.thread_time() - cpu_s) * 1_000
    return _Done(result, attempt.outcome, index_block(opened), begin_ms, cpu_ms)


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
        kinds=kinds_of(fields, settings),
        refs=fields.texts(
            "refs", most=settings.get_refs, most_bytes=settings.ref_bytes, limit="ref_bytes"
        ),
        updated_after_ms=after,
        updated_before_ms=before,
        explain=fields.flag("explain", False),
    )


def kinds_of(fields: Fields, settings: Settings) -> tuple[str, ...]:
    """`kinds`.

    Raises:
        InvalidRequest: it is not a list of kinds.
    """
    return fields.texts("kinds", most=KINDS, most_bytes=settings.kind_bytes, limit="kind_bytes")


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
    "layer": str,
    "limit_tokens": read_integer,
}
