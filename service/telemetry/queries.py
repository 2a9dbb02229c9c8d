"""The searches of this worker as a metric, read from its share of the exact counters.

Each worker tells only what it counted itself since it started, under its own instance id: sums over
workers count every search once, although a counter file outlives its worker.
"""

from __future__ import annotations

from collections.abc import Iterable

from opentelemetry.metrics import Meter, Observation

from service.telemetry import names
from service.telemetry.states import StateCounter


def observe_queries(meter: Meter, counter: StateCounter) -> None:
    """Have the instrument read the counter whenever metrics are collected."""

    def queries() -> Iterable[Observation]:
        return [
            Observation(
                count,
                {
                    "memlane.semantic.state": state,
                    "memlane.semantic.reason": reason,
                    "memlane.role": role,
                },
            )
            for (role, state, reason), count in counter.share().items()
        ]

    names.SEARCH_QUERIES.observe(meter, queries)
