"""Spans of replication: of each announcement, and of each file that is brought up.

They belong to no request, so whoever draws them is said once a process, after its fork.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from opentelemetry.trace import NoOpTracer, StatusCode, Tracer


class Spans:
    """Draws spans once it was told by whom."""

    def __init__(self) -> None:
        self._tracer: Tracer = NoOpTracer()

    def drawn_by(self, tracer: Tracer) -> None:
        """Who draws them from now on."""
        self._tracer = tracer

    @contextmanager
    def part(self, name: str, **attributes: str) -> Iterator[None]:
        """A span of this name; an error leaves its type, since messages may quote anything."""
        with self._tracer.start_as_current_span(
            name,
            attributes={f"memlane.{key}": value for key, value in attributes.items()},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            try:
                yield
            except Exception as error:
                span.set_attribute("error.type", type(error).__qualname__)
                span.set_status(StatusCode.ERROR)
                raise


spans = Spans()
"""This process's."""
