"""What a process costs: CPU time and memory, for any process of a node."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable
from pathlib import Path

from opentelemetry.metrics import Meter, Observation

from service.telemetry import names

_STATM = Path("/proc/self/statm")
_KIB = 1_024


def observe_process(meter: Meter) -> None:
    """Have the instruments read this process's usage whenever metrics are collected."""

    def cpu() -> Iterable[Observation]:
        times = os.times()
        return [
            Observation(times.user, {"cpu.mode": "user"}),
            Observation(times.system, {"cpu.mode": "system"}),
        ]

    names.PROCESS_CPU.observe(meter, cpu)
    names.PROCESS_MEMORY.observe(meter, lambda: [Observation(resident_bytes())])


def resident_bytes() -> int:
    """This process's resident memory; its greatest so far where the system does not say."""
    try:
        return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIB
