"""What the publisher tells: how far announcements are behind, what was written, what failed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from opentelemetry.metrics import Meter, Observation

from service.replica.counters import Counters
from service.telemetry import names

_FAILURES: Final = {
    "publication": "failed_publications",
    "upload": "failed_syncs",
    "litestream_silent": "litestream_silent",
}
"""Cause -> the publisher's counter."""


class Announcing(Protocol):
    """What is read of a `service.replica.Publisher`."""

    counters: Counters

    def lag_ms(self) -> int:
        """How long the oldest commit has waited that is not announced."""

    def silent_ms(self) -> int:
        """How long ago the last publication was, beyond the usual heartbeat."""


def observe_publishing(meter: Meter, shard: str, publisher: Announcing) -> None:
    """Have the instruments read the publisher whenever metrics are collected.

    Args:
        meter: where the instruments live.
        shard: whose publisher it is.
        publisher: the publisher.
    """
    where = {"memlane.shard": shard}

    def lag() -> Iterable[Observation]:
        behind_ms = max(publisher.lag_ms(), publisher.silent_ms())
        return [Observation(behind_ms / 1_000, where)]

    def failures() -> Iterable[Observation]:
        found = publisher.counters.snapshot()
        return [
            Observation(found.get(counter, 0), {**where, "memlane.cause": cause})
            for cause, counter in _FAILURES.items()
        ]

    names.PUBLISH_LAG.observe(meter, lag)
    names.PUBLICATIONS.observe(
        meter, lambda: [Observation(publisher.counters["publications"], where)]
    )
    names.PUBLISH_FAILURES.observe(meter, failures)
