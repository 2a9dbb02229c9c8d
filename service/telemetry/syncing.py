"""What writing tells: documents by what became of them, and how long batches take."""

from __future__ import annotations

from collections import Counter

from opentelemetry.metrics import Meter
from opentelemetry.trace import get_current_span

from service.index.writer import BatchResult
from service.telemetry import names


class Syncing:
    """Counts the documents of batches.

    Args:
        meter: where the instruments live.
    """

    def __init__(self, meter: Meter) -> None:
        self._documents = names.SYNC_DOCUMENTS.counter(meter)
        self._duration = names.SYNC_DURATION.histogram(meter)

    def applied(self, result: BatchResult, durability: str, seconds: float) -> None:
        """A batch is about to be acknowledged.

        Args:
            result: what became of it; of a replayed one nothing is counted again.
            durability: `local` or `replicated`.
            seconds: how long that took.
        """
        counts = Counter(str(line.result) for line in result.results)
        get_current_span().set_attributes(
            {f"memlane.sync.{told}": count for told, count in counts.items()}
        )
        self._duration.record(seconds, {"memlane.sync.durability": durability})
        if result.replayed:
            return
        for told, count in counts.items():
            self._documents.add(count, {"memlane.sync.result": told})
