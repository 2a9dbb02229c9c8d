"""The spans of calls to the sidecar, as the RPC conventions name them, and the trace they carry."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import propagate
from opentelemetry.trace import NoOpTracer, Span, SpanKind, StatusCode, Tracer, set_span_in_context

SERVICE: Final = "memlane.embed.v1.Embedder"

Metadata = tuple[tuple[str, str], ...]


class Calls:
    """Draws spans once it was told by whom."""

    def __init__(self) -> None:
        self._tracer: Tracer = NoOpTracer()

    def traced_by(self, tracer: Tracer) -> None:
        """Who draws them from now on."""
        self._tracer = tracer

    def begin(self, name: str, method: str) -> tuple[Span, Metadata]:
        """A call is about to be made; `end` must be told of its end.

        Args:
            name: of the span.
            method: of the protocol.

        Returns:
            its span, and metadata that carry its trace.
        """
        span = self._tracer.start_span(
            name,
            kind=SpanKind.CLIENT,
            attributes={"rpc.system.name": "grpc", "rpc.method": f"{SERVICE}/{method}"},
        )
        carrier: dict[str, str] = {}
        propagate.inject(carrier, set_span_in_context(span))
        return span, tuple(carrier.items())

    def end(self, span: Span, status: str) -> None:
        """A call is over; on any thread.

        Args:
            span: from `begin`.
            status: the name of the gRPC status.
        """
        span.set_attribute("rpc.response.status_code", status)
        if status != "OK":
            span.set_status(StatusCode.ERROR)
        span.end()

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """A span around several calls."""
        with self._tracer.start_as_current_span(
            name, record_exception=False, set_status_on_exception=False
        ):
            yield
