"""What the sidecar tells of a call, in its caller's trace."""

from __future__ import annotations

import asyncio
import time

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from embedder import traces
from embedder.traces import Part, Traces

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Told:
    """Traces that end in a list."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = Traces(provider.get_tracer("test"))

    def spans(self) -> dict[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


def call(told: Told, status: str, *, flags: str = "01", seconds: float = 0.0) -> None:
    parent = f"00-{TRACE}-{SPAN}-{flags}"
    with told.traces.call("EmbedQuery", [("traceparent", parent), ("bin-bin", b"\x00")]) as made:
        assert traces.current.get() is made
        begun = 1_000.0
        made.parts += [Part("queue", begun, begun + 0.5, 1), Part("run", begun + 0.5, begun + 2, 1)]
        if seconds:
            time.sleep(seconds)
        made.status = status
    assert traces.current.get() is None


def test_a_call_is_a_span_below_its_callers_with_its_wait_and_its_run() -> None:
    told = Told()
    call(told, "OK")
    spans = told.spans()
    server = spans["memlane.embed.v1.Embedder/EmbedQuery"]
    assert server.context is not None
    assert server.parent is not None
    assert f"{server.context.trace_id:032x}" == TRACE
    assert f"{server.parent.span_id:016x}" == SPAN
    assert server.status.is_unset
    assert (server.attributes or {})["rpc.response.status_code"] == "OK"
    for name, seconds in (("queue", 0.5), ("run", 1.5)):
        part = spans[name]
        assert part.parent is not None
        assert part.parent.span_id == server.context.span_id
        assert part.start_time is not None
        assert part.end_time is not None
        assert (part.end_time - part.start_time) / 1e9 == pytest.approx(seconds, abs=1e-6)


def test_a_trace_that_is_not_sent_gets_only_what_failed_or_was_slow() -> None:
    for status, seconds, count in (
        ("OK", 0.0, 0),
        ("RESOURCE_EXHAUSTED", 0.0, 3),
        ("OK", traces.SLOW_S, 3),
    ):
        told = Told()
        call(told, status, flags="00", seconds=seconds)
        assert len(told.spans()) == count, (status, seconds)


def test_a_caller_that_goes_away_is_told_as_cancelled() -> None:
    told = Told()
    with pytest.raises(asyncio.CancelledError), told.traces.call("EmbedQuery", []):
        raise asyncio.CancelledError
    [span] = told.spans().values()
    assert (span.attributes or {})["rpc.response.status_code"] == "CANCELLED"
    assert not span.status.is_ok
    assert span.parent is None


@pytest.mark.parametrize("broken", ["", "00-x", "00-" + "0" * 32 + "-b7ad6b7169203331-01"])
def test_a_broken_trace_is_no_trace(broken: str) -> None:
    told = Told()
    with told.traces.call("Split", [("traceparent", broken)]) as made:
        made.status = "OK"
    [span] = told.spans().values()
    assert span.parent is None
