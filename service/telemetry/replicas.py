"""What a reader node tells: how old it is, what it holds, how files come to queries.

Ages come from every web worker: they are true while the follower is dead, which is when they
matter. What is summed over nodes, such as resident files, comes from the follower alone, which is
one process a node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from opentelemetry.metrics import Meter, Observation

from service.replica.counters import Counters
from service.replica.vitals import NodeHealth
from service.telemetry import names

Vitals = Callable[[], NodeHealth]

_FAILURES: Final = {
    "poll": "failed_polls",
    "listing": "failed_listings",
    "catch_up": "failed_catch_ups",
    "quarantined": "quarantined",
}
"""Cause -> the follower's counter."""


class Activations:
    """How long files took to come to queries.

    Args:
        meter: where the instruments live.
    """

    def __init__(self, meter: Meter) -> None:
        self._duration = names.ACTIVATION_DURATION.histogram(meter)

    def opened(self, temperature: str, seconds: float) -> None:
        """A file was held for a query."""
        self._duration.record(seconds, {"memlane.temperature": temperature})


def observe_freshness(meter: Meter, vitals: Vitals) -> None:
    """Tell ages of shards and canaries, from a web worker.

    Args:
        meter: where the instruments live.
        vitals: how the node is; called in the exporting thread.
    """

    def staleness() -> Iterator[Observation]:
        for shard in vitals().shards:
            yield Observation(shard.heads_age_ms / 1_000, {"memlane.shard": shard.name})

    def canary() -> Iterator[Observation]:
        for shard in vitals().shards:
            if shard.canary_age_ms is not None:
                yield Observation(shard.canary_age_ms / 1_000, {"memlane.shard": shard.name})

    names.REPLICA_STALENESS.observe(meter, staleness)
    names.CANARY_AGE.observe(meter, canary)


def observe_follower(meter: Meter, counters: Counters, vitals: Vitals) -> None:
    """Tell what the node holds and what its follower did.

    Args:
        meter: where the instruments live.
        counters: the follower's.
        vitals: how the node is; called in the exporting thread.
    """

    def stuck() -> Iterator[Observation]:
        for cause, (count, _) in vitals().stuck.items():
            yield Observation(count, {"memlane.cause": cause})

    def failures() -> Iterable[Observation]:
        found = counters.snapshot()
        return [
            Observation(found.get(counter, 0), {"memlane.cause": cause})
            for cause, counter in _FAILURES.items()
        ]

    names.RESIDENT_TENANTS.observe(meter, lambda: [Observation(vitals().replicas)])
    names.RESIDENT_SIZE.observe(meter, lambda: [Observation(vitals().replica_bytes)])
    names.EVICTIONS.observe(meter, lambda: [Observation(counters["evictions"])])
    names.RESTORES.observe(meter, lambda: [Observation(counters["seeds"])])
    names.STUCK.observe(meter, stuck)
    names.FOLLOW_FAILURES.observe(meter, failures)
