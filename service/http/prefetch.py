"""`/v1/prefetch`: what an agent fetches before a turn; a late answer is no answer.

The work runs beside the handler, which answers when its time is up, whatever the work does then:
a search is cut short inside SQLite, a tenant that is not here is only asked for, and what was not
reached is said by name.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from service.errors import ReplicaBehind, Unavailable
from service.http import markdown
from service.http.answers import index_block, note_phases
from service.http.auth import tenant_with
from service.http.layers import Reply, answer, lean_index, limit_of, wants_markdown
from service.http.limits import Busy
from service.http.middleware import request_id
from service.http.node import Node, Opened, node_of
from service.http.requests import read_fields
from service.http.search import compact_rows, kinds_of, lean_semantic
from service.http.telling import phased, searched
from service.search.layers import head
from service.search.prefetch import as_query, until
from service.search.request import SearchRequest, SearchResult
from service.semantic.state import SemanticOutcome, SemanticReason, SemanticState
from service.tenancy.records import Tenant

HITS: Final = 5
QUERY_TOKENS: Final = 60
QUERY_CHARACTERS: Final = 240
"""How much of the query made from a text is shown."""
BUDGET_LEAST_MS: Final = 50
ASK_MS: Final = 20
"""How long a tenant that is away is waited for: enough for the follower to begin bringing it."""
#: Reasons of a semantic lane that was skipped for want of time, not of use.
_NO_TIME: Final = (SemanticReason.CIRCUIT_OPEN, SemanticReason.REQUESTED)
_running: Final[set[asyncio.Task[None]]] = set()
"""Work that nobody waits for any more; the event loop itself would forget it."""


async def prefetch(request: Request) -> Response:
    """`POST /v1/prefetch`: `{"text", "budget_ms", "kinds", "limit", "limit_tokens"}`."""
    begun = time.perf_counter()
    node = node_of(request)
    settings = node.settings
    with node.telemetry.span("prefetch"):
        tenant = await tenant_with(node, request, "search")
        fields = await read_fields(request, settings)
        text = fields.text("text", most_chars=settings.small_request_bytes)
        budget_ms = fields.integer(
            "budget_ms", settings.prefetch_ms, least=BUDGET_LEAST_MS, most=settings.prefetch_ms_most
        )
        kinds = kinds_of(fields, settings)
        limit = fields.integer("limit", HITS, least=1, most=settings.hits_count)
        limit_tokens = limit_of(fields)
        fields.done()
        wanted = SearchRequest(q=as_query(text)[: settings.query_chars], limit=limit, kinds=kinds)
        end = begun + (budget_ms - settings.prefetch_reserve_ms) / 1_000
        found = await _Work(node, tenant, wanted, end).before_end()
        took_ms = {"total": (time.perf_counter() - begun) * 1_000}
        if found.result is not None:
            took_ms = found.result.took_ms | took_ms
        parts = () if found.result is None else found.result.parts
        told = searched(
            *(request_id(request), tenant, found.outcome, took_ms, found.index), cpu_ms=found.cpu_ms
        )
        node.telemetry.answered(found.outcome, took_ms, parts, told=told)
    note_phases(request, took_ms)
    headers = {"memlane-semantic": found.outcome.header()}
    reply = _reply(wanted, found, budget_ms, as_markdown=wants_markdown(request))
    return answer(request, reply, limit_tokens, headers=headers)


@dataclasses.dataclass(frozen=True, slots=True)
class _Found:
    """What there is when the time is up."""

    result: SearchResult | None
    outcome: SemanticOutcome
    index: dict[str, object] | None
    skipped: list[str]
    cpu_ms: float = 0.0


class _Work:
    """One prefetch. Its thread may still run when its answer is gone.

    Args:
        node: this worker.
        tenant: whose file.
        wanted: what is asked.
        end: when the answer must be there, of `time.perf_counter`.
    """

    def __init__(self, node: Node, tenant: Tenant, wanted: SearchRequest, end: float) -> None:
        self._node = node
        self._tenant = tenant
        self._wanted = wanted
        self._end = end
        self._at = "search"
        self._began = False
        self._found: _Found | None = None

    async def before_end(self) -> _Found:
        """What was found, or what was being done when the time was up.

        Raises:
            IndexFileError: the tenant's file cannot be used.
        """
        task = asyncio.ensure_future(self._node.prefetches.run(self._run))
        _running.add(task)
        task.add_done_callback(_forget)
        await asyncio.wait({task}, timeout=max(0.0, self._end - time.perf_counter()))
        if not task.done():
            if not self._began:
                task.cancel()  # it still waits for its turn
            return self._nothing(self._at, SemanticReason.DEADLINE)
        try:
            task.result()
        except Busy:
            return self._nothing("search", SemanticReason.DEADLINE)
        except (Unavailable, ReplicaBehind):
            return self._nothing("replica", SemanticReason.NO_CANDIDATES)
        return self._found or self._nothing("search", SemanticReason.DEADLINE)

    # --- in a thread

    def _run(self) -> None:
        self._began = True
        if self._late():
            return
        self._at = "replica"
        asked = self._node.files.open(
            self._tenant.file, min_version=None, max_staleness_ms=None, deadline_ms=ASK_MS
        )
        with asked as opened:
            self._at = "search"
            self._found = until(opened.reader, self._late, lambda: self._search(opened))

    def _search(self, opened: Opened) -> _Found:
        settings, cpu_s = self._node.settings, time.thread_time()
        left_ms = (self._end - time.perf_counter()) * 1_000 - settings.prefetch_tail_ms
        attempt = self._node.lane.attempt(
            opened.reader, self._wanted, asked_ms=None, budget_ms=left_ms
        )
        result = self._node.search(opened.reader, self._wanted, attempt)
        result = phased(result, attempt.took_ms)
        outcome = attempt.outcome
        missed = outcome.state is SemanticState.TIMEOUT or outcome.reason in _NO_TIME
        skipped = ["semantic"] if missed else []
        cpu_ms = (time.thread_time() - cpu_s) * 1_000
        return _Found(result, outcome, index_block(opened), skipped, cpu_ms)

    def _late(self) -> bool:
        return time.perf_counter() >= self._end

    def _nothing(self, skipped: str, reason: SemanticReason) -> _Found:
        return _Found(None, self._node.lane.unreached(reason), None, [skipped, "semantic"])


def _forget(task: asyncio.Task[None]) -> None:
    _running.discard(task)
    if not task.cancelled():
        task.exception()  # told to nobody: its answer is gone


def _reply(wanted: SearchRequest, found: _Found, budget_ms: int, *, as_markdown: bool) -> Reply:
    hits = [] if found.result is None else found.result.hits
    rows = compact_rows(hits, as_markdown=as_markdown)

    def body(count: int) -> dict[str, Any]:
        return rows | {
            "hits": rows["hits"][:count],
            "left_out": len(hits) - count,
            "query": head(wanted.q, tokens=QUERY_TOKENS, characters=QUERY_CHARACTERS),
            "skipped": found.skipped,
            "budget_ms": budget_ms,
            "semantic": lean_semantic(found.outcome),
            "index": None if found.index is None else lean_index(found.index),
        }

    def full(count: int) -> int:
        return sum(hit.tokens for hit in hits[:count])

    return Reply(body, full, len(hits), markdown.prefetch)
