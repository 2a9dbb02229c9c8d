"""Spans that came over OTLP, to be looked through."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from golden.fleet.attributes import attributes_of

SPANS: Final = 2_000_000
"""Most that are kept; the oldest go."""


class Span(NamedTuple):
    """One span: ids in hex, the name of the service that drew it, and its instance."""

    trace: str
    id: str
    parent: str
    name: str
    service: str
    instance: str
    attributes: dict[str, str]


class Spans:
    """What came; safe to share among threads.

    Attributes:
        texts: every text that came, once each: names, values, messages.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: list[Span] = []
        self.texts: set[str] = set()

    def take(self, request: ExportTraceServiceRequest) -> None:
        """Keep what a process sent."""
        for resource in request.resource_spans:
            told = attributes_of(resource.resource.attributes)
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self._keep(span, told)

    def all(self) -> list[Span]:
        """Those that are kept, in the order in which they came."""
        with self._lock:
            return list(self._found)

    def named(self, name: str) -> list[Span]:
        """Those of this name."""
        return [span for span in self.all() if span.name == name]

    def tree(self, trace: str) -> Iterator[tuple[int, Span]]:
        """A trace's spans with their depth, parents before children; orphans come at depth 0."""
        spans = [span for span in self.all() if span.trace == trace]
        ids = {span.id for span in spans}

        def below(parent: str, depth: int) -> Iterator[tuple[int, Span]]:
            for span in spans:
                if span.parent == parent:
                    yield depth, span
                    yield from below(span.id, depth + 1)

        for span in spans:
            if span.parent not in ids:
                yield 0, span
                yield from below(span.id, 1)

    def _keep(self, span: Any, told: dict[str, str]) -> None:
        attributes = attributes_of(span.attributes)
        kept = Span(
            span.trace_id.hex(),
            span.span_id.hex(),
            span.parent_span_id.hex(),
            span.name,
            told["service.name"],
            told["service.instance.id"],
            attributes,
        )
        texts = {span.name, span.status.message, *attributes, *attributes.values()}
        for event in span.events:
            texts |= {event.name, *attributes_of(event.attributes).values()}
        with self._lock:
            self._found.append(kept)
            self.texts |= texts
            if len(self._found) > SPANS:
                del self._found[: SPANS // 10]
