"""What one search tells: its semantic state, exactly once, and its duration by phase."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from opentelemetry import propagate
from opentelemetry.metrics import Meter
from opentelemetry.trace import (
    NoOpTracer,
    Span,
    SpanKind,
    Tracer,
    get_current_span,
    set_span_in_context,
)

from service.search.request import Part
from service.semantic.state import SemanticOutcome, SemanticState
from service.settings import Settings
from service.telemetry import names
from service.telemetry.backfill import Progress, observe_backfill
from service.telemetry.figures import Figures
from service.telemetry.queries import observe_queries
from service.telemetry.setup import METER_NAME, start_metrics, start_traces
from service.telemetry.states import StateCounter, StateKey
from service.telemetry.stories import Searched
from service.telemetry.traces import NOTABLE, Outgoing

UNREMARKABLE: Final = (SemanticState.OK, SemanticState.DISABLED)
"""Where the lane is off there is nothing to look into; every other search without it is kept."""


class SearchTelemetry:
    """Counts searches in the node's exact counters and in OpenTelemetry's instruments.

    Args:
        role: `reader` or `writer`.
        counter: this worker's share of the node's exact counters.
        meter: where the instruments live.
        tracer: where the spans go.
        outgoing: their way out; None when they go nowhere.
        figures: this worker's part in the node's own figures; None keeps none.
    """

    def __init__(
        self,
        role: str,
        counter: StateCounter,
        meter: Meter,
        tracer: Tracer | None = None,
        outgoing: Outgoing | None = None,
        figures: Figures | None = None,
    ) -> None:
        self.figures: Final = figures
        self._outgoing = outgoing
        self.tracer: Final = tracer or NoOpTracer()
        self._role = role
        self._counter = counter
        self._meter = meter
        self._duration = names.SEARCH_DURATION.histogram(meter)
        observe_queries(meter, counter)

    @contextmanager
    def request_span(self, headers: Mapping[str, str]) -> Iterator[Span]:
        """The span of one request, in the trace that its headers name.

        What is raised inside is not kept on it: messages may quote what was asked.
        """
        with self.tracer.start_as_current_span(
            "request",
            context=propagate.extract(headers),
            kind=SpanKind.SERVER,
            record_exception=False,
            set_status_on_exception=False,
        ) as span:
            yield span

    @contextmanager
    def span(self, name: str, parent: Span | None = None) -> Iterator[Span]:
        """A part of a request: of the current one, or of that whose span is given."""
        context = None if parent is None else set_span_in_context(parent)
        with self.tracer.start_as_current_span(
            name, context, record_exception=False, set_status_on_exception=False
        ) as span:
            yield span

    def answered(
        self,
        outcome: SemanticOutcome,
        took_ms: Mapping[str, float],
        parts: Sequence[Part] = (),
        *,
        told: Searched | None = None,
    ) -> None:
        """Record one answered search: counted, and its outcome noted on the current span.

        Args:
            outcome: its semantic outcome.
            took_ms: milliseconds by phase.
            parts: its parts that had no span yet.
            told: the same for the node's own figures.
        """
        self._counter.count(outcome)
        if told is not None and self.figures is not None:
            self.figures.searched(told)
        reason = "" if outcome.reason is None else outcome.reason.value
        span = get_current_span()
        span.set_attribute("memlane.semantic.state", outcome.state.value)
        span.set_attribute("memlane.semantic.reason", reason)
        if outcome.model is not None:
            span.set_attribute("memlane.semantic.model", outcome.model)
        if outcome.coverage is not None:
            span.set_attribute("memlane.semantic.coverage", outcome.coverage)
        if outcome.state not in UNREMARKABLE:
            span.set_attribute(NOTABLE, True)
        if parts and span.is_recording():
            self._draw(parts)
        for phase, duration_ms in took_ms.items():
            self._duration.record(
                duration_ms / 1_000, {"memlane.search.phase": phase, "memlane.role": self._role}
            )

    def _draw(self, parts: Sequence[Part]) -> None:
        """Spans of parts that are over."""
        now_s, now_ns = time.perf_counter(), time.time_ns()
        for name, begin_s, end_s in parts:
            span = self.tracer.start_span(name, start_time=now_ns - int((now_s - begin_s) * 1e9))
            span.end(now_ns - int((now_s - end_s) * 1e9))

    @property
    def meter(self) -> Meter:
        """Where the other instruments of this worker live."""
        return self._meter

    def observe_backfill(self, progress: Progress) -> None:
        """Tell of a writer's backfill too."""
        observe_backfill(self._meter, progress)

    def spans(self) -> dict[str, int]:
        """What became of this worker's spans that were to leave; empty when none are to."""
        return {} if self._outgoing is None else self._outgoing.counts()

    def totals(self) -> dict[StateKey, int]:
        """Searches by (role, state, reason) over all workers of this node."""
        return self._counter.totals()


@contextmanager
def search_telemetry(
    role: str, folder: Path, settings: Settings | None = None
) -> Iterator[SearchTelemetry]:
    """This worker's telemetry; enter it after the fork, leaving it sends what is left.

    Args:
        role: `reader` or `writer`.
        folder: the node's folder of counters.
        settings: the limits; the defaults when None.

    Raises:
        SetupError: the counters cannot be used, or an exporter is asked for and not installed.
    """
    settings = settings or Settings()
    with (
        StateCounter(folder, role=role) as counter,
        Figures(folder, role, settings) as figures,
        start_metrics(role) as provider,
        start_traces(role, settings, provider.get_meter(METER_NAME)) as (
            traces,
            outgoing,
        ),
    ):
        meter, tracer = provider.get_meter(METER_NAME), traces.get_tracer(METER_NAME)
        yield SearchTelemetry(role, counter, meter, tracer, outgoing, figures)
