"""What the backfill tells: coverage by kind, what waits, what was done."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from opentelemetry.metrics import CallbackOptions, Meter, Observation

Progress = Callable[[], Mapping[str, Any]]

_COUNTERS = {
    "passages": "Passages embedded.",
    "documents": "Documents that got all their vectors.",
    "quarantined": "Documents given up.",
    "failed_requests": "Requests that the sidecar did not answer or refused.",
}


def observe_backfill(meter: Meter, progress: Progress) -> None:
    """Have the instruments read the backfill's progress whenever metrics are collected.

    Args:
        meter: where the instruments live.
        progress: see `service.semantic.backfill.Backfill.progress`.
    """

    def coverage(_: CallbackOptions) -> Iterable[Observation]:
        for kind, row in progress()["by_kind"].items():
            share = row["complete"] / row["documents"] if row["documents"] else 1.0
            yield Observation(share, {"memlane.kind": kind})

    def pending(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(progress()["pending"])

    def oldest(_: CallbackOptions) -> Iterable[Observation]:
        yield Observation(progress()["oldest_missing_ms"] / 1_000)

    def counted(name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        return lambda _: [Observation(progress().get(name, 0))]

    meter.create_observable_gauge(
        "memlane.vectors.coverage", [coverage], unit="1", description="Documents with vectors."
    )
    meter.create_observable_gauge(
        "memlane.backfill.pending", [pending], unit="{document}", description="Without vectors."
    )
    meter.create_observable_gauge(
        "memlane.backfill.oldest_age", [oldest], unit="s", description="Oldest missing vector."
    )
    for name, about in _COUNTERS.items():
        unit = "{request}" if name == "failed_requests" else f"{{{name.removesuffix('s')}}}"
        meter.create_observable_counter(
            f"memlane.backfill.{name}", [counted(name)], unit=unit, description=about
        )
