"""What one search tells: its semantic state, exactly once, and its duration by phase."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from opentelemetry import propagate
from opentelemetry.metrics import Meter
from opentelemetry.trace import NoOpTracer, Tracer, get_current_span

from service.semantic.state import SemanticOutcome
from service.telemetry.backfill import Progress, observe_backfill
from service.telemetry.setup import METER_NAME, start_metrics, start_traces
from service.telemetry.states import StateCounter, StateKey


class SearchTelemetry:
    """Counts searches in the node's exact counters and in OpenTelemetry's instruments.

    Args:
        role: `reader` or `writer`.
        counter: this worker's share of the node's exact counters.
        meter: where the instruments live.
        tracer: where the spans go.
    """

    def __init__(
        self, role: str, counter: StateCounter, meter: Meter, tracer: Tracer | None = None
    ) -> None:
        self._tracer = tracer or NoOpTracer()
        self._role = role
        self._counter = counter
        self._meter = meter
        self._queries = meter.create_counter(
            "memlane.search.queries", unit="{query}", description="Searches answered."
        )
        self._duration = meter.create_histogram(
            "memlane.search.duration", unit="s", description="Time a search took, by phase."
        )

    @contextmanager
    def search_span(self, headers: Mapping[str, str]) -> Iterator[None]:
        """The span of one search, in the trace that the request's headers name.

        What is raised inside is not kept on it: messages may quote what was asked.
        """
        with self._tracer.start_as_current_span(
            "search", context=propagate.extract(headers), record_exception=False
        ):
            yield

    def answered(self, outcome: SemanticOutcome, took_ms: Mapping[str, float]) -> None:
        """Record one answered search: counted, and its outcome noted on the current span.

        Args:
            outcome: its semantic outcome.
            took_ms: milliseconds by phase.
        """
        self._counter.count(outcome)
        reason = "" if outcome.reason is None else outcome.reason.value
        span = get_current_span()
        span.set_attribute("memlane.semantic.state", outcome.state.value)
        span.set_attribute("memlane.semantic.reason", reason)
        if outcome.model is not None:
            span.set_attribute("memlane.semantic.model", outcome.model)
        if outcome.coverage is not None:
            span.set_attribute("memlane.semantic.coverage", outcome.coverage)
        self._queries.add(
            1,
            {
                "memlane.semantic.state": outcome.state.value,
                "memlane.semantic.reason": reason,
                "memlane.role": self._role,
            },
        )
        for phase, duration_ms in took_ms.items():
            self._duration.record(
                duration_ms / 1_000, {"memlane.search.phase": phase, "memlane.role": self._role}
            )

    def observe_backfill(self, progress: Progress) -> None:
        """Tell of a writer's backfill too."""
        observe_backfill(self._meter, progress)

    def totals(self) -> dict[StateKey, int]:
        """Searches by (role, state, reason) over all workers of this node."""
        return self._counter.totals()


@contextmanager
def search_telemetry(role: str, folder: Path) -> Iterator[SearchTelemetry]:
    """This worker's telemetry; enter it after the fork, leaving it sends what is left.

    Args:
        role: `reader` or `writer`.
        folder: the node's folder of counters.

    Raises:
        SetupError: the counters cannot be used, or an exporter is asked for and not installed.
    """
    with (
        StateCounter(folder, role=role) as counter,
        start_metrics(role) as provider,
        start_traces(role) as traces,
    ):
        yield SearchTelemetry(
            role, counter, provider.get_meter(METER_NAME), traces.get_tracer(METER_NAME)
        )
