"""Spans: all are recorded; which leave is known when a trace's part in this process is over.

Those leave that the sampling chose, and those of every notable trace: a search that was slow, that
failed, or whose semantic lane was wanted and gave nothing. What leaves waits in a queue of bounded
length and is sent by a thread of its own: a collector that is down costs spans, which are counted,
and never a search.
"""

from __future__ import annotations

import dataclasses
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from opentelemetry.context import Context
from opentelemetry.metrics import Meter, Observation
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor
from opentelemetry.sdk.trace.export import (
    BatchSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.sampling import (
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, TraceFlags

from service.telemetry import names

NOTABLE: Final = "memlane.notable"
"""Attribute that makes a trace leave, whatever the sampling says."""
TRACES: Final = 256
"""Traces that wait for their end in one process; a worker answers far fewer at once."""
SPANS: Final = 64
"""Spans of one trace that wait for its end; a search has about eight."""
OUTCOMES: Final = ("exported", "failed", "dropped")


class AllRecorded(Sampler):
    """Chooses a share of the traces, or as the caller chose; the others are recorded all the same.

    Args:
        share: of the traces, in [0, 1].
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._chosen = ParentBased(TraceIdRatioBased(share))

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Any = None,
        links: Any = None,
        trace_state: Any = None,
    ) -> SamplingResult:
        """See `Sampler`."""
        found = self._chosen.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        if found.decision is Decision.DROP:
            return SamplingResult(Decision.RECORD_ONLY, attributes, found.trace_state)
        return found

    def get_description(self) -> str:
        """See `Sampler`."""
        return f"AllRecorded({self._share})"


@dataclasses.dataclass(slots=True)
class _Open:
    """A trace that was not chosen and whose part here is not over."""

    roots: int = 0
    notable: bool = False
    spans: list[ReadableSpan] = dataclasses.field(default_factory=list)


class KeepNotable(SpanProcessor):
    """Hands on the chosen spans at once, those of notable traces at their end, no others.

    Args:
        outgoing: where spans leave.
        slow_ms: a trace that takes this long here is notable.
    """

    def __init__(self, outgoing: Outgoing, *, slow_ms: int) -> None:
        self._outgoing = outgoing
        self._slow_ns = slow_ms * 1_000_000
        self._lock = threading.Lock()
        self._open: OrderedDict[int, _Open] = OrderedDict()
        self._kept: OrderedDict[int, None] = OrderedDict()

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:  # noqa: ARG002
        """See `SpanProcessor`."""
        context = span.context
        if context is None or context.trace_flags.sampled or not _is_root(span):
            return
        with self._lock:
            trace = self._open.setdefault(context.trace_id, _Open())
            trace.roots += 1
            self._open.move_to_end(context.trace_id)
            while len(self._open) > TRACES:
                self._open.popitem(last=False)

    def on_end(self, span: ReadableSpan) -> None:
        """See `SpanProcessor`."""
        context = span.context
        if context is None:
            return
        if context.trace_flags.sampled:
            self._outgoing.send([span])
            return
        with self._lock:
            leaving = self._ended(span, context.trace_id)
        self._outgoing.send([_chosen(each) for each in leaving])

    def shutdown(self) -> None:
        """See `SpanProcessor`."""
        self._outgoing.close()

    def _ended(self, span: ReadableSpan, trace_id: int) -> list[ReadableSpan]:
        """What leaves now that this span has ended."""
        if trace_id in self._kept:  # the rest is gone already
            if _is_root(span):
                self._open.pop(trace_id, None)
            return [span]
        trace = self._open.get(trace_id)
        if trace is None:
            return []
        if len(trace.spans) < SPANS:
            trace.spans.append(span)
        trace.notable |= self._is_notable(span)
        if not _is_root(span):
            return []
        trace.roots -= 1
        if trace.notable:
            self._kept[trace_id] = None
            while len(self._kept) > TRACES:
                self._kept.popitem(last=False)
        elif trace.roots:
            return []
        del self._open[trace_id]
        return trace.spans if trace.notable else []

    def _is_notable(self, span: ReadableSpan) -> bool:
        if (span.attributes or {}).get(NOTABLE) or span.status.status_code is StatusCode.ERROR:
            return True
        return _is_root(span) and (span.end_time or 0) - (span.start_time or 0) >= self._slow_ns


class Outgoing:
    """The way out: a bounded queue, a thread that sends, and counts of what became of spans.

    Args:
        exporter: sends a batch.
        waiting_most: spans that wait; more are dropped.
    """

    def __init__(self, exporter: SpanExporter, *, waiting_most: int) -> None:
        self._most = waiting_most
        self._lock = threading.Lock()
        self._waiting = 0
        self._counts: Counter[str] = Counter()
        self._closing = False
        self._batches = BatchSpanProcessor(
            _Counted(exporter, self),
            max_queue_size=waiting_most,
            max_export_batch_size=min(512, waiting_most),
        )

    def send(self, spans: Iterable[ReadableSpan]) -> None:
        """Queue spans; returns at once."""
        for span in spans:
            with self._lock:
                full = self._waiting >= self._most
                self._counts["dropped"] += full
                self._waiting += not full
            if not full:
                self._batches.on_end(span)

    def counts(self) -> dict[str, int]:
        """Spans by outcome: `exported`, `failed`, `dropped`."""
        with self._lock:
            return {outcome: self._counts[outcome] for outcome in OUTCOMES}

    def close(self) -> None:
        """Send what waits, unless a batch fails: then the rest is given up and counted."""
        self._closing = True
        self._batches.shutdown()  # type: ignore[no-untyped-call]

    def taken(self, count: int) -> bool:
        """A batch leaves the queue; whether to try to send it."""
        with self._lock:
            self._waiting -= count
            return not (self._closing and self._counts["failed"])

    def over(self, count: int, *, sent: bool) -> None:
        """A batch was sent, or was not."""
        with self._lock:
            self._counts["exported" if sent else "failed"] += count


class _Counted(SpanExporter):
    """An exporter whose batches are counted."""

    def __init__(self, exporter: SpanExporter, outgoing: Outgoing) -> None:
        self._exporter = exporter
        self._outgoing = outgoing

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        found = SpanExportResult.FAILURE
        try:
            if self._outgoing.taken(len(spans)):
                found = self._exporter.export(spans)
        finally:
            self._outgoing.over(len(spans), sent=found is SpanExportResult.SUCCESS)
        return found

    def shutdown(self) -> None:
        self._exporter.shutdown()


def observe_spans(meter: Meter, outgoing: Outgoing) -> None:
    """Have the instrument read what became of spans whenever metrics are collected."""
    names.SPANS.observe(
        meter,
        lambda: [
            Observation(count, {"memlane.outcome": outcome})
            for outcome, count in outgoing.counts().items()
        ],
    )


def _is_root(span: ReadableSpan) -> bool:
    """Whether its parent, if any, is in another process."""
    return span.parent is None or span.parent.is_remote


def _chosen(span: ReadableSpan) -> ReadableSpan:
    """The span as if it had been chosen from the start: exporters take no others."""
    context = span.context
    assert context is not None
    return ReadableSpan(
        name=span.name,
        context=SpanContext(
            context.trace_id,
            context.span_id,
            is_remote=False,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
            trace_state=context.trace_state,
        ),
        parent=span.parent,
        resource=span.resource,
        attributes=span.attributes,
        events=span.events,
        links=span.links,
        kind=span.kind,
        status=span.status,
        start_time=span.start_time,
        end_time=span.end_time,
        instrumentation_scope=span.instrumentation_scope,
    )
