"""Every query's semantic state, as four witnesses tell it: bodies, headers, spans and the counter.

Queries of all kinds go to two workers while the sidecar is killed, comes back, is paused and goes
on; one tenant never gets vectors and one has the lane off, so that all five states occur.
"""

from __future__ import annotations

import itertools
import random
import signal
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

import httpx
import orjson

from embedder.builds.recipes import build
from golden.fleet.collector import Collector
from golden.fleet.process import wait_for
from golden.fleet.sidecar import SidecarNode, Tap
from golden.fleet.world import OK, Fleet, Tenant, running
from service.telemetry.states import read_totals

DOCUMENTS: Final = 40
THREADS: Final = 6
SEED: Final = 20
WAIT_S: Final = 120.0
SPANS: Final = 50_000
"""So many may wait, so that none is dropped at this rate: each must be counted."""
SOON_MS: Final = "100"
"""How long the sidecar's spans wait: those of a killed one that still wait are lost."""
FAULTS: Final = ((0.2, "kill"), (0.35, "start"), (0.55, "stop"), (0.7, "continue"))
"""After which share of the queries what happens to the sidecar."""

Progress = Callable[[str], None]


class Said(NamedTuple):
    """What an answer said of its semantic lane: its body's state and reason, and its header."""

    state: str
    reason: str
    header: str


class Call(NamedTuple):
    """One query: where to, and what it carries."""

    path: str
    tenant: Tenant
    body: dict[str, Any]


def run(
    queries: int,
    *,
    model: str | None = None,
    progress: Progress = lambda _: None,
    collector: Collector | None = None,
) -> dict[str, Any]:
    """Ask, break, count.

    Args:
        queries: how many to ask.
        model: of the sidecar: a folder, or a name; None builds the tiny one.
        progress: is told what happens.
        collector: where spans and metrics go, entered already; its own when None.

    Returns:
        `{"served", "counter", "node_counter", "bodies", "headers", "spans": {STATE: n},
        "reasons": {"STATE/REASON": n}, "refused", "spans_lost", "workers", "equal"}`: `counter` is
        the metric that came to the collector, `node_counter` the node's own exact one.

    Raises:
        SetupError: what builds the model is not installed.
        Unavailable: a part did not come up.
    """
    if collector is None:
        with Collector(expires_s=1e9) as own:
            return run(queries, model=model, progress=progress, collector=own)
    with tempfile.TemporaryDirectory(prefix="memlane-states-") as name:
        folder = Path(name)
        if model is None:
            build("tiny", folder / "tiny")
            model = str(folder / "tiny")
        told = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "MEMLANE_TRACE_SPANS": str(SPANS)}
        sidecar = SidecarNode(model, folder, environ=told | {"OTEL_BSP_SCHEDULE_DELAY": SOON_MS})
        sidecar.start()
        try:
            with (
                Tap(sidecar.address) as tap,
                running(
                    "folder",
                    environ=told | {"MEMLANE_READER_WORKERS": "2"},
                    reader_environs=[{"MEMLANE_EMBEDDER": sidecar.address}],
                    writer_environ={"MEMLANE_EMBEDDER": tap.address},
                ) as fleet,
            ):
                calls = _calls(_tenants(fleet, tap), queries)
                said, refused = _ask(fleet, calls, queries, sidecar, progress)
                fleet.readers[0].tree.stop()  # what is left to tell is told at the end
                totals = read_totals(fleet.readers[0].folder / "counters")
        finally:
            sidecar.tree.stop()
    return _report(said, refused, totals, collector)


def _tenants(fleet: Fleet, tap: Tap) -> dict[str, Tenant]:
    """One with vectors, one with the lane off, one that never gets vectors."""
    lines = b"\n".join(
        orjson.dumps({"kind": "note", "ref": f"n{n}", "title": f"Kettle {n}", "note": f"green {n}"})
        for n in range(DOCUMENTS)
    )
    tenants = {name: fleet.create(name) for name in ("warm", "off", "cold")}
    for name in ("warm", "off"):
        fleet.write(tenants[name], lines)
    _wait_told(fleet, tenants["warm"], "the vectors", lambda told: told["coverage"] == 1.0)
    tap.closed = True
    fleet.write(tenants["cold"], lines)
    answer = fleet.http.post(
        f"{fleet.writers[0].url}/v1/index:semantic",
        json={"percent": 0},
        headers=tenants["off"].headers,
    )
    answer.raise_for_status()
    _wait_told(fleet, tenants["off"], "the change", lambda told: told["percent"] == 0)
    _wait_told(fleet, tenants["cold"], "the documents", lambda _: True)
    return tenants


def _calls(tenants: Mapping[str, Tenant], count: int) -> Iterator[Call]:
    """Queries of every kind, none of them twice."""
    chance = random.Random(SEED)  # noqa: S311  (chance, not secrets)
    for number in range(count):
        text = f"green kettle {chance.choice(('on', 'for', 'with'))} shelf{number}"
        kind = chance.choices(
            ("plain", "prefetch", "identifier", "requested", "nothing", "off", "cold"),
            (60, 8, 6, 6, 6, 7, 7),
        )[0]
        match kind:
            case "prefetch":
                yield Call("/v1/prefetch", tenants["warm"], {"text": text})
            case "identifier":
                yield Call("/v1/search", tenants["warm"], {"q": f"KettleShelf{number}"})
            case "requested":
                yield Call(
                    "/v1/search", tenants["warm"], {"q": text, "semantic": {"deadline_ms": 0}}
                )
            case "nothing":
                yield Call("/v1/search", tenants["warm"], {"q": f"xyzzy plugh{number} qwrtz"})
            case "off" | "cold":
                yield Call("/v1/search", tenants[kind], {"q": text})
            case _:
                layer = "compact" if number % 3 == 0 else "hits"
                yield Call("/v1/search", tenants["warm"], {"q": text, "layer": layer})


def _ask(
    fleet: Fleet, calls: Iterator[Call], count: int, sidecar: SidecarNode, progress: Progress
) -> tuple[list[Said], int]:
    """All answers, and how many queries were refused; faults come at their shares."""
    faults = {int(share * count): fault for share, fault in FAULTS}
    lock = threading.Lock()
    numbered = enumerate(calls)
    refused = itertools.count()
    said: list[Said] = []

    def worker() -> None:
        # A connection each: which worker answers is the kernel's choice, again and again.
        alone = httpx.Limits(max_keepalive_connections=0)
        with httpx.Client(timeout=WAIT_S, trust_env=False, limits=alone) as client:
            while True:
                with lock:
                    number, call = next(numbered, (0, None))
                    if call is not None and number in faults:
                        _strike(sidecar, faults[number])
                        progress(f"{number} queries: {faults[number]}")
                if call is None:
                    return
                found = _one(client, fleet.readers[0].url, call)
                with lock:
                    said.append(found) if found is not None else next(refused)

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(worker) for _ in range(THREADS)]:
            done.result()
    return said, next(refused)


def _one(client: httpx.Client, url: str, call: Call) -> Said | None:
    answer = client.post(url + call.path, json=call.body, headers=call.tenant.headers)
    if answer.status_code != OK:
        return None
    semantic = answer.json()["semantic"]
    return Said(semantic["state"], semantic["reason"] or "", answer.headers["memlane-semantic"])


def _strike(sidecar: SidecarNode, fault: str) -> None:
    match fault:
        case "kill":
            sidecar.tree.send(signal.SIGKILL)
        case "start":
            sidecar.start()
        case "stop":
            sidecar.tree.send(signal.SIGSTOP)
        case "continue":
            sidecar.tree.send(signal.SIGCONT)


def _report(
    said: list[Said], refused: int, totals: Mapping[tuple[str, str, str], int], told: Collector
) -> dict[str, Any]:
    spans = [span for span in told.spans.all() if "memlane.semantic.state" in span.attributes]
    states = {
        "counter": _summed(told),
        "node_counter": _by_state(totals),
        "bodies": Counter(each.state for each in said),
        "headers": Counter(each.header.split(";")[0] for each in said),
        "spans": Counter(span.attributes["memlane.semantic.state"] for span in spans),
    }
    return {
        "served": len(said),
        **{name: dict(sorted(counts.items())) for name, counts in states.items()},
        "reasons": dict(sorted(Counter(f"{s.state}/{s.reason}" for s in said).items())),
        "refused": refused,
        "spans_lost": told.total("memlane.telemetry.spans", "memlane.outcome", "dropped")
        + told.total("memlane.telemetry.spans", "memlane.outcome", "failed"),
        "workers": len({span.instance for span in spans}),
        "equal": len({tuple(sorted(counts.items())) for counts in states.values()}) == 1,
    }


def _by_state(totals: Mapping[tuple[str, str, str], int]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (_, state, _), count in totals.items():
        found[state] += count
    return +found


def _summed(told: Collector) -> Counter[str]:
    """The metric's sum by state over all workers."""
    return Counter(
        {
            state: int(total)
            for state in ("ok", "cold", "timeout", "skipped", "disabled")
            if (total := told.total("memlane.search.queries", "memlane.semantic.state", state))
        }
    )


def _wait_told(
    fleet: Fleet, tenant: Tenant, what: str, holds: Callable[[dict[str, Any]], bool]
) -> None:
    """Wait until something holds of the vectors of a tenant whose documents the reader has."""

    def there() -> bool:
        answer = fleet.http.get(f"{fleet.readers[0].url}/v1/index", headers=tenant.headers)
        if answer.status_code != OK:
            return False
        found = answer.json()
        return found["documents"] == DOCUMENTS and holds(found["vectors"])

    wait_for(there, WAIT_S, what)
