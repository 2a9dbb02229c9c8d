"""The trace that a request belongs to, as its metadata said (W3C Trace Context).

Kept in a context variable for spans to come; nothing is exported by the sidecar itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-(?P<trace>[0-9a-f]{32})-(?P<span>[0-9a-f]{16})-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class TraceContext:
    """Who called: the `traceparent` as it came, and its parts in hex."""

    traceparent: str
    tracestate: str
    trace_id: str
    span_id: str


current: ContextVar[TraceContext | None] = ContextVar("memlane_embed_trace", default=None)


def read(metadata: Iterable[tuple[str, str | bytes]]) -> TraceContext | None:
    """The trace context of a request's metadata; None when it has none, or a broken one."""
    found = {key: value for key, value in metadata if isinstance(value, str)}
    parent = found.get("traceparent", "")
    matched = _TRACEPARENT.fullmatch(parent)
    if matched is None or not int(matched["trace"], 16) or not int(matched["span"], 16):
        return None
    state = found.get("tracestate", "")
    return TraceContext(parent, state, trace_id=matched["trace"], span_id=matched["span"])
