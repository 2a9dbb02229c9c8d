"""What an answered search tells the node's own figures."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, Final

from opentelemetry.trace import format_trace_id, get_current_span

from service.search.request import SearchResult
from service.semantic.state import SemanticOutcome
from service.telemetry.stories import Searched
from service.tenancy.records import Tenant

NOTHING_OPENED: Final[Mapping[str, Any]] = {
    "temperature": "cold",
    "version": 0,
    "docs": 0,
    "age_ms": 0,
}
"""Of a search that ended before its file was there."""


def phased(result: SearchResult, lane_ms: Mapping[str, float]) -> SearchResult:
    """The result with the lane's phases beside the others: it ran while candidates were scored."""
    if not lane_ms:
        return result
    took_ms: dict[str, float] = {}
    for name, spent_ms in result.took_ms.items():
        if name != "score":
            took_ms[name] = spent_ms
            continue
        took_ms[name] = round(max(0.0, spent_ms - sum(lane_ms.values())), 3)
        took_ms |= lane_ms
    return dataclasses.replace(result, took_ms=took_ms)


def searched(
    request_id: str,
    tenant: Tenant,
    outcome: SemanticOutcome,
    took_ms: Mapping[str, float],
    index: Mapping[str, Any] | None,
    *,
    begin_ms: float = 0.0,
    cpu_ms: float = 0.0,
) -> Searched:
    """A search that is being answered now.

    Args:
        request_id: the request's.
        tenant: whose memory was searched.
        outcome: what became of its semantic lane.
        took_ms: milliseconds by phase; `total` among them.
        index: the answer's block about what it was answered from, if from anything.
        begin_ms: how long it waited for a place.
        cpu_ms: CPU time of the thread that did the work.
    """
    index = index or NOTHING_OPENED
    context = get_current_span().get_span_context()
    return Searched(
        id=request_id,
        at_ms=int(time.time() * 1_000 - took_ms["total"]),
        tenant=tenant.name,
        outcome=outcome,
        took_ms=took_ms,
        begin_ms=begin_ms,
        temperature=index["temperature"],
        version=index["version"],
        documents=index["docs"],
        age_ms=index["age_ms"],
        cpu_ms=cpu_ms,
        trace=format_trace_id(context.trace_id) if context.is_valid else "",
    )
