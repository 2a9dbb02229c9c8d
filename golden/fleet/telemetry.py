"""What telemetry costs a query: three readers of one tenant, asked in turns.

One tells nobody, one tells a collector everything, one tells a collector that is not there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import cycle
from statistics import median
from typing import Any, Final

from golden import metrics
from golden.fleet.collector import Collector
from golden.fleet.process import free_ports, wait_for
from golden.fleet.world import OK, Fleet, Node, Tenant, running
from golden.judged import JudgedSet, documents
from service.errors import Unavailable

ROUNDS: Final = 12
BLOCK: Final = 150
WARM_UP: Final = 100
BATCH: Final = 500
WAIT_S: Final = 120.0
EXPORT_MS: Final = "5000"
READERS: Final = ("off", "on", "down")

Progress = Callable[[str], None]


def run(judged_set: JudgedSet, *, documents_most: int, progress: Progress) -> dict[str, Any]:
    """Ask three readers the same questions, in turns.

    Returns:
        `{"queries", "cpu_ms", "wall_ms": {READER: median of a query}, "cost": {"on", "down"},
        "memory_mib": {READER: [first, last]}, "spans": {READER: {OUTCOME: n}}}`; `cost` is the
        median over rounds of its CPU over that of `off`, less 1. CPU is that of the web processes.

    Raises:
        Unavailable: a part did not come up, or a reader did not answer.
    """
    (nowhere,) = free_ports(1)
    with Collector() as collector:
        told = {"OTEL_METRIC_EXPORT_INTERVAL": EXPORT_MS, "MEMLANE_READER_WORKERS": "1"}
        environs = [
            {"MEMLANE_READER_WORKERS": "1"},
            told | {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url},
            told | {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{nowhere}"},
        ]
        with running("folder", reader_environs=environs) as fleet:
            tenant = fleet.create("asked")
            lines = documents(judged_set.corpus)[:documents_most]
            for at in range(0, len(lines), BATCH):
                version = fleet.write(tenant, b"\n".join(lines[at : at + BATCH]))
            for reader in fleet.readers:
                wait_for(partial(_has, fleet, reader, tenant, version), WAIT_S, "the set")
            return _measured(fleet, tenant, judged_set, progress)


def _measured(
    fleet: Fleet, tenant: Tenant, judged_set: JudgedSet, progress: Progress
) -> dict[str, Any]:
    nodes = dict(zip(READERS, fleet.readers, strict=True))
    questions = cycle([query.text for query in judged_set.queries])
    for text in (next(questions) for _ in range(WARM_UP)):
        for node in nodes.values():
            _ask(fleet, node, tenant, text)
    memory = {name: [_memory_mib(node)] for name, node in nodes.items()}
    cpu: dict[str, list[float]] = {name: [] for name in nodes}
    wall: dict[str, list[float]] = {name: [] for name in nodes}
    for number in range(ROUNDS):
        texts = [next(questions) for _ in range(BLOCK)]
        turn = number % len(READERS)
        for name in READERS[turn:] + READERS[:turn]:
            node, before = nodes[name], _cpu_s(nodes[name])
            wall[name] += [_ask(fleet, node, tenant, text) for text in texts]
            cpu[name].append((_cpu_s(node) - before) * 1_000 / BLOCK)
        progress(f"round {number + 1}: " + "  ".join(f"{n} {v[-1]:.2f} ms" for n, v in cpu.items()))
    for name, node in nodes.items():
        memory[name].append(_memory_mib(node))
    return {
        "queries": ROUNDS * BLOCK,
        "cpu_ms": {name: round(median(values), 3) for name, values in cpu.items()},
        "wall_ms": {name: metrics.percentiles(values) for name, values in wall.items()},
        "cost": {name: _cost(cpu[name], cpu["off"]) for name in READERS[1:]},
        "memory_mib": memory,
        "spans": {name: (node.ready() or {})["spans"] for name, node in nodes.items()},
    }


def _cost(one: list[float], other: list[float]) -> float:
    return round(median(a / b for a, b in zip(one, other, strict=True)) - 1, 4)


def _ask(fleet: Fleet, node: Node, tenant: Tenant, q: str) -> float:
    begun = time.perf_counter()
    answer = fleet.http.post(f"{node.url}/v1/search", json={"q": q}, headers=tenant.headers)
    if answer.status_code != OK:
        raise Unavailable(f"a reader answered {answer.status_code}: {answer.text[:200]}")
    return (time.perf_counter() - begun) * 1_000


def _cpu_s(node: Node) -> float:
    return node.tree.cpu_s("service.serve")


def _memory_mib(node: Node) -> float:
    return round(sum(use.memory_mib for use in node.tree.usage() if "follower" not in use.name), 1)


def _has(fleet: Fleet, node: Node, tenant: Tenant, version: int) -> bool:
    answer = fleet.http.get(f"{node.url}/v1/index", headers=tenant.headers)
    return answer.status_code == OK and int(answer.json()["version"]) >= version
