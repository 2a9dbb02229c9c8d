"""Is a prefetch ever late? A thousand of them, with a sidecar that hangs and tenants that are away.

A writer, a reader with room for few tenants, and a sidecar that embeds everything first and is then
stopped in the middle (SIGSTOP): its port still takes connections, and nothing ever answers. Calls
go to one tenant that is at home, and every so often to one of several that the reader let go.
"""

from __future__ import annotations

import itertools
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import httpx
import orjson
import psutil

from golden import metrics, sidecars
from golden.cases import DEMO_CORPUS
from golden.fleet.process import wait_for
from golden.fleet.world import OK, Fleet, Tenant, running, timed_ms
from golden.judged import documents
from service.errors import SetupError

CALLS = 1_000
THREADS = 2
BUDGET_MS = 300
GRACE_MS = 20
"""How late an answer may come and still be in time."""
AWAY = 5
"""Tenants that the reader has no room for."""
AWAY_COPIES = 12
"""Of the demo memory in each of those: bringing such a file here takes a while."""
AWAY_EVERY = 20
PAUSE_S = 0.04
"""Between two calls of a thread, as turns of agents have pauses."""
ROOM = 4
"""Files that the reader keeps: the registry, the canary, the tenant at home, and one more."""
EMBED_S = 600.0

Progress = Callable[[str], None]


def run(
    *, model: str, calls: int = CALLS, budget_ms: int = BUDGET_MS, progress: Progress
) -> dict[str, Any]:
    """Measure.

    Args:
        model: the sidecar's, see `golden.sidecars`.
        calls: how many.
        budget_ms: of each.
        progress: told what is being done.

    Returns:
        `{"calls", "budget_ms", "late", "p50_ms", "p99_ms", "worst_ms", "worst_over_ms", "found",
        "skipped": {WHAT: calls}, "semantic": {STATE: calls}, "away": calls}`; times as the client
        saw them, `late` beyond the budget and 20 ms, `found` with at least one hit.

    Raises:
        SetupError: a call failed, or the sidecar cannot be started.
        Unavailable: the fleet did not come up.
    """
    environ = {"MEMLANE_RESIDENT_TENANTS": str(ROOM)}
    with (
        sidecars.running(model) as address,
        running("folder", environ=environ | {"MEMLANE_EMBEDDER": address}) as fleet,
    ):
        lines = documents(DEMO_CORPUS)
        home = _tenant(fleet, "home", lines)
        progress("waiting for vectors")
        wait_for(lambda: _embedded(fleet, home), EMBED_S, "vectors")
        away = [_tenant(fleet, f"away-{number}", _copies(lines)) for number in range(AWAY)]
        wait_for(lambda: _embedded(fleet, home), EMBED_S, "the first tenant to be back")
        with _paused(address):
            progress(f"{calls} calls, the sidecar paused")
            return _report(_ask_all(fleet, home, away, calls, budget_ms), budget_ms)


def _copies(lines: list[bytes]) -> list[bytes]:
    documents = [orjson.loads(line) for line in lines]
    return [
        orjson.dumps(document | {"ref": f"{document['ref']}-{copy}"})
        for copy in range(AWAY_COPIES)
        for document in documents
    ]


def _tenant(fleet: Fleet, name: str, lines: list[bytes]) -> Tenant:
    tenant = fleet.create(name)
    fleet.write(tenant, b"\n".join(lines), durability="replicated")
    wait_for(
        lambda: _post(fleet, tenant, "search", {"q": "gateway"}).status_code == OK,
        60,
        "a tenant on the reader",
    )
    return tenant


def _embedded(fleet: Fleet, tenant: Tenant) -> bool:
    """Whether candidates have vectors, so that every query's own is waited for."""
    told = _post(fleet, tenant, "search", {"q": "how are the gateway retries set"}).json()
    return bool(told.get("semantic", {}).get("state") == "ok")


@contextmanager
def _paused(address: str) -> Iterator[None]:
    """The sidecar, stopped for the block and all that stands below it."""
    tree = [each for each in psutil.Process().children() if address in each.cmdline()]
    if not tree:
        raise SetupError("the sidecar's process is not found")
    stopped = [*tree, *(below for each in tree for below in each.children(recursive=True))]
    for each in stopped:
        each.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        for each in stopped:
            each.send_signal(signal.SIGCONT)


def _ask_all(
    fleet: Fleet, home: Tenant, away: list[Tenant], calls: int, budget_ms: int
) -> list[tuple[float, bool, dict[str, Any]]]:
    """Milliseconds, whether the tenant was one of those away, and the answer, for each call."""
    titles = [orjson.loads(line)["title"] for line in documents(DEMO_CORPUS)]
    others = itertools.cycle(away)
    lock = threading.Lock()

    def call(number: int) -> tuple[float, bool, dict[str, Any]]:
        time.sleep(PAUSE_S)
        is_away = number % AWAY_EVERY == AWAY_EVERY - 1
        with lock:
            tenant = next(others) if is_away else home
        # A text that nobody asked about before, so that its vector is known to nobody.
        text = f"{titles[number % len(titles)]}: what came of it, attempt {number}?"
        began = time.monotonic()
        answer = _post(fleet, tenant, "prefetch", {"text": text, "budget_ms": budget_ms})
        spent = timed_ms(began)
        if answer.status_code != OK:
            raise SetupError(f"a prefetch failed: {answer.status_code} {answer.text[:200]}")
        return spent, is_away, answer.json()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(call, range(calls)))


def _report(answers: list[tuple[float, bool, dict[str, Any]]], budget_ms: int) -> dict[str, Any]:
    spent = [each for each, _, _ in answers]
    told = [answer for _, _, answer in answers]
    shares = metrics.percentiles(spent)
    return {
        "calls": len(answers),
        "budget_ms": budget_ms,
        "late": sum(each > budget_ms + GRACE_MS for each in spent),
        "p50_ms": shares["p50"],
        "p99_ms": shares["p99"],
        "worst_ms": round(max(spent), 1),
        "worst_over_ms": round(max(spent) - budget_ms, 1),
        "found": sum(bool(answer["hits"]) for answer in told),
        "skipped": dict(Counter(what for answer in told for what in answer["skipped"])),
        "semantic": dict(Counter(answer["semantic"]["state"] for answer in told)),
        "away": sum(is_away for _, is_away, _ in answers),
    }


def _post(fleet: Fleet, tenant: Tenant, call: str, body: dict[str, Any]) -> httpx.Response:
    url = f"{fleet.readers[0].url}/v1/{call}"
    return fleet.http.post(url, json=body, headers=tenant.headers)
