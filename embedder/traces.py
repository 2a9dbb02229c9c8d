"""The sidecar's part of its callers' traces: a span for each call, with its wait and its runs.

Spans are drawn when a call is over. A call whose caller's trace is not to be sent leaves nothing,
unless it failed or was slow: then the caller's own part is sent too.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    TraceFlags,
    Tracer,
    get_current_span,
    set_span_in_context,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

SLOW_S: Final = 0.1
"""A call that takes this long is told of in any case; a query's deadline is 0.15 s by default."""
SERVICE: Final = "memlane.embed.v1.Embedder"

_PROPAGATOR: Final = TraceContextTextMapPropagator()


class Part(NamedTuple):
    """A part of a call: its begin and end on `time.monotonic()`'s clock, and how many texts."""

    name: str
    begin: float
    end: float
    texts: int


@dataclass(slots=True)
class Call:
    """A call being answered.

    Attributes:
        parent: the caller's context, empty when it sent none.
        status: the name of its gRPC status.
        parts: what was done for it.
    """

    parent: Context
    status: str = "CANCELLED"
    parts: list[Part] = field(default_factory=list)

    @property
    def caller(self) -> SpanContext:
        """The caller's span."""
        return get_current_span(self.parent).get_span_context()


current: ContextVar[Call | None] = ContextVar("memlane_embed_call", default=None)


class Traces:
    """Draws spans.

    Args:
        tracer: where they go.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    @contextmanager
    def call(self, method: str, metadata: Iterable[tuple[str, Any]]) -> Iterator[Call]:
        """A call of this method, in the trace that its metadata name (W3C Trace Context)."""
        carrier = {name: value for name, value in metadata if isinstance(value, str)}
        call = Call(_PROPAGATOR.extract(carrier, Context()))
        token = current.set(call)
        began = time.monotonic()
        try:
            yield call
        finally:
            current.reset(token)
            self._draw(method, call, began, time.monotonic())

    def _draw(self, method: str, call: Call, began: float, ended: float) -> None:
        parent, caller = call.parent, call.caller
        if caller.is_valid and not caller.trace_flags.sampled:
            if call.status == "OK" and ended - began < SLOW_S:
                return
            parent = set_span_in_context(NonRecordingSpan(_sampled(caller)))
        now, now_ns = time.monotonic(), time.time_ns()

        def at_ns(moment: float) -> int:
            return now_ns - int((now - moment) * 1e9)

        name = f"{SERVICE}/{method}"
        attributes: Mapping[str, str] = {
            "rpc.system.name": "grpc",
            "rpc.method": name,
            "rpc.response.status_code": call.status,
        }
        span = self._tracer.start_span(
            name, parent, SpanKind.SERVER, attributes, start_time=at_ns(began)
        )
        for part in call.parts:
            inner = self._tracer.start_span(
                part.name,
                set_span_in_context(span),
                attributes={"memlane.embed.texts": part.texts},
                start_time=at_ns(part.begin),
            )
            inner.end(at_ns(part.end))
        if call.status != "OK":
            span.set_status(StatusCode.ERROR)
        span.end(at_ns(ended))


def _sampled(caller: SpanContext) -> SpanContext:
    return SpanContext(
        caller.trace_id,
        caller.span_id,
        is_remote=True,
        trace_flags=TraceFlags(TraceFlags.SAMPLED),
        trace_state=caller.trace_state,
    )
