"""What the backfill tells: coverage by kind, what waits, what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final

from opentelemetry.metrics import Meter, Observation

from service.telemetry import names

Progress = Callable[[], Mapping[str, Any]]

_COUNTERS: Final = {
    "passages": names.BACKFILL_PASSAGES,
    "documents": names.BACKFILL_DOCUMENTS,
    "quarantined": names.BACKFILL_QUARANTINED,
    "failed_requests": names.BACKFILL_FAILED,
}


def observe_backfill(meter: Meter, progress: Progress) -> None:
    """Have the instruments read the backfill's progress whenever metrics are collected.

    Args:
        meter: where the instruments live.
        progress: see `service.semantic.backfill.Backfill.progress`.
    """

    def coverage() -> Iterator[Observation]:
        for kind, row in progress()["by_kind"].items():
            share = row["complete"] / row["documents"] if row["documents"] else 1.0
            yield Observation(share, {"memlane.kind": kind})

    def counted(name: str) -> list[Observation]:
        return [Observation(progress().get(name, 0))]

    names.VECTORS_COVERAGE.observe(meter, coverage)
    names.BACKFILL_PENDING.observe(meter, lambda: [Observation(progress()["pending"])])
    names.BACKFILL_OLDEST.observe(
        meter, lambda: [Observation(progress()["oldest_missing_ms"] / 1_000)]
    )
    for name, metric in _COUNTERS.items():
        metric.observe(meter, partial(counted, name))
