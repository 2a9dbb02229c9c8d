"""Which spans leave, and what becomes of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanKind, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from service.telemetry.traces import NOTABLE, AllRecorded, KeepNotable, Outgoing

SLOW_MS = 50
CHOSEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNCHOSEN = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


class Kept(SpanExporter):
    """Keeps what it is given, or refuses it."""

    def __init__(self, *, working: bool = True, gate: threading.Event | None = None) -> None:
        self.spans: list[ReadableSpan] = []
        self.calls = 0
        self._working = working
        self._gate = gate

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.calls += 1
        if self._gate is not None:
            self._gate.wait(20)
        if not self._working:
            return SpanExportResult.FAILURE
        self.spans += spans
        return SpanExportResult.SUCCESS


class World:
    """A tracer whose spans end in a list."""

    def __init__(self, share: float, exporter: Kept | None = None, most: int = 1_000) -> None:
        self.exporter = exporter or Kept()
        self.outgoing = Outgoing(self.exporter, waiting_most=most)
        self._provider = TracerProvider(sampler=AllRecorded(share), shutdown_on_exit=False)
        self._provider.add_span_processor(KeepNotable(self.outgoing, slow_ms=SLOW_MS))
        self.tracer: Tracer = self._provider.get_tracer("test")

    def left(self) -> list[str]:
        """Names of the spans that left, after the end."""
        self._provider.shutdown()
        return sorted(span.name for span in self.exporter.spans)


def search(
    tracer: Tracer, *, took_ms: float = 1.0, parent: str | None = None, marked: bool = False
) -> None:
    carrier = {} if parent is None else {"traceparent": parent}
    context = TraceContextTextMapPropagator().extract(carrier)
    root = tracer.start_span("request", context, SpanKind.SERVER, start_time=1_000_000_000)
    inner = tracer.start_span("search", set_span_in_context(root), attributes={NOTABLE: marked})
    inner.end()
    root.end(1_000_000_000 + int(took_ms * 1e6))


def test_of_ordinary_traces_the_chosen_share_leaves() -> None:
    for share, left in ((1.0, ["request", "search"]), (0.0, [])):
        world = World(share)
        search(world.tracer)
        assert world.left() == left


@pytest.mark.parametrize(
    "notably",
    [
        lambda tracer: search(tracer, marked=True),
        lambda tracer: search(tracer, took_ms=SLOW_MS),
    ],
    ids=["marked", "slow"],
)
def test_a_notable_trace_leaves_whole_whatever_was_chosen(
    notably: Callable[[Tracer], None],
) -> None:
    world = World(0.0)
    search(world.tracer)
    notably(world.tracer)
    assert world.left() == ["request", "search"]
    spans = world.exporter.spans
    assert len({span.context.trace_id for span in spans if span.context}) == 1
    assert all(span.context.trace_flags.sampled for span in spans if span.context)


def test_a_failed_part_makes_a_trace_notable() -> None:
    world = World(0.0)
    root = world.tracer.start_span("request")
    failed = world.tracer.start_span("semantic.embed", set_span_in_context(root))
    failed.set_status(StatusCode.ERROR)
    failed.end()
    root.end()
    assert world.left() == ["request", "semantic.embed"]


def test_what_ends_after_its_trace_follows_it() -> None:
    world = World(0.0)
    for mark in ({NOTABLE: True}, {}):
        root = world.tracer.start_span("request", attributes=mark)
        late = world.tracer.start_span("semantic.embed", set_span_in_context(root))
        root.end()
        late.end()
    assert world.left() == ["request", "semantic.embed"]


def test_the_callers_choice_is_followed() -> None:
    for parent, left in ((CHOSEN, ["request", "search"]), (UNCHOSEN, [])):
        world = World(0.0 if left else 1.0)
        search(world.tracer, parent=parent)
        assert world.left() == left


def test_two_requests_of_one_unchosen_trace_do_not_lose_each_others_spans() -> None:
    world = World(0.0)
    context = TraceContextTextMapPropagator().extract({"traceparent": UNCHOSEN})
    first = world.tracer.start_span("first", context)
    second = world.tracer.start_span("second", context)
    inner = world.tracer.start_span("of the second", set_span_in_context(second))
    inner.end()
    first.end()
    second.set_attribute(NOTABLE, True)
    second.end()
    assert world.left() == ["first", "of the second", "second"]


def test_spans_beyond_the_queue_are_dropped_and_counted_and_nothing_waits() -> None:
    gate = threading.Event()
    world = World(1.0, Kept(gate=gate), most=10)
    for _ in range(100):
        search(world.tracer)
    counts = world.outgoing.counts()
    assert counts["dropped"] >= 200 - 2 * 10
    gate.set()
    left = world.left()
    counts = world.outgoing.counts()
    assert counts["exported"] == len(left)
    assert sum(counts.values()) == 200


def test_a_collector_that_is_down_costs_spans_that_are_counted() -> None:
    world = World(1.0, Kept(working=False), most=2_000)
    for _ in range(600):
        search(world.tracer)
    assert world.left() == []
    assert world.outgoing.counts() == {"exported": 0, "failed": 1_200, "dropped": 0}
    assert world.exporter.calls <= 2  # at the end, one failure is enough
