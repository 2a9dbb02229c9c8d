"""What the sidecar tells: what waits, how large runs are, how long they take, where they run."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from opentelemetry.metrics import CallbackOptions, Meter, Observation

_KIND: Final = "memlane.embed.kind"
_TEXTS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)
_RUN_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_STATM: Final = Path("/proc/self/statm")


class Metrics:
    """The instruments of one sidecar; safe to share among threads.

    Args:
        meter: where they live.
    """

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self._batch = meter.create_histogram(
            "memlane.embed.batch",
            unit="{text}",
            description="Texts of one run of the model.",
            explicit_bucket_boundaries_advisory=_TEXTS,
        )
        self._duration = meter.create_histogram(
            "memlane.embed.duration",
            unit="s",
            description="Time of one run of the model.",
            explicit_bucket_boundaries_advisory=_RUN_S,
        )
        self._failures = meter.create_counter(
            "memlane.embed.failures", unit="{run}", description="Runs of the model that failed."
        )
        meter.create_observable_counter(
            "process.cpu.time", [_cpu], unit="s", description="CPU time of the process."
        )
        meter.create_observable_gauge(
            "process.memory.usage",
            [lambda _: [Observation(_resident_bytes())]],
            unit="By",
            description="Memory of the process, shared pages too.",
        )

    def ran(self, kind: str, texts: int, seconds: float, failed: bool) -> None:
        """One run of the model is over.

        Args:
            kind: `query` or `passage`.
            texts: how many it had.
            seconds: how long it took.
            failed: it gave no vectors.
        """
        self._batch.record(texts, {_KIND: kind})
        self._duration.record(seconds, {_KIND: kind})
        self._failures.add(int(failed), {_KIND: kind})

    def observe(
        self,
        queued: Callable[[], Mapping[str, int]],
        *,
        model: str,
        asked: str,
        used: str,
        device: str,
    ) -> None:
        """Tell what waits, and what the model runs on.

        Args:
            queued: texts that wait, by kind.
            model: its id.
            asked: the provider asked for.
            used: the provider in use.
            device: `cuda` or `cpu`.
        """
        where = {
            "memlane.embed.provider.asked": asked,
            "memlane.embed.provider.used": used,
            "memlane.embed.device": device,
            "memlane.embed.model": model,
        }

        def waiting(_: CallbackOptions) -> Iterable[Observation]:
            return [Observation(count, {_KIND: kind}) for kind, count in queued().items()]

        self._meter.create_observable_gauge(
            "memlane.embed.queue", [waiting], unit="{text}", description="Texts that wait."
        )
        self._meter.create_observable_gauge(
            "memlane.embed.provider",
            [lambda _: [Observation(1, where)]],
            unit="{sidecar}",
            description="1, with what the model was asked to run on and what it runs on.",
        )


def _cpu(_: CallbackOptions) -> Iterable[Observation]:
    times = os.times()
    return [
        Observation(times.user, {"cpu.mode": "user"}),
        Observation(times.system, {"cpu.mode": "system"}),
    ]


def _resident_bytes() -> int:
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1_024
