"""From an acknowledged write to its sight on another node."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson

from golden import metrics
from golden.fleet import objects, records
from golden.fleet.process import wait_for
from golden.fleet.world import OK, THREADS, Fleet, Tenant, running, timed_ms
from service.errors import MemlaneError

TENANTS = 200
SECONDS = 30.0
WRITES_PER_S = 20.0
LOOK_S = 0.02
GIVEN_UP_S = 20.0
SEED = 11

Progress = Callable[[str], None]


def run(
    *,
    kind: objects.Kind,
    tenants: int = TENANTS,
    seconds: float = SECONDS,
    progress: Progress,
) -> dict[str, Any]:
    """Write to tenants at random; look for each write on the reader, or ask for `min_version`.

    Returns:
        `{"tenants", "writes", "lost", "visible_ms", "min_version_ms": {p50, p90, p99}, "older"}`;
        `older` counts answers to `min_version` that were older than asked, `lost` writes not seen
        within 20 s.

    Raises:
        SetupError: no S3 server is installed.
        Unavailable: the fleet did not come up.
    """
    with running(kind) as fleet:
        made = fleet.create_many([f"lag{number:03d}" for number in range(tenants)])
        progress(f"{tenants} tenants")
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(lambda tenant: _warm(fleet, tenant), made))
        progress("all on the reader")
        seen = _Seen()
        _drive(fleet, made, seconds, seen)
    return {
        "store": kind,
        "tenants": tenants,
        "writes": seen.writes,
        "failed": seen.failed,
        "lost": seen.lost,
        "older": seen.older,
        "visible_ms": metrics.percentiles(seen.visible_ms),
        "min_version_ms": metrics.percentiles(seen.min_version_ms),
    }


class _Seen:
    """What was measured; guarded by its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.writes = self.failed = self.lost = self.older = 0
        self.visible_ms: list[float] = []
        self.min_version_ms: list[float] = []


def _drive(fleet: Fleet, tenants: Sequence[Tenant], seconds: float, seen: _Seen) -> None:
    rng = random.Random(SEED)  # noqa: S311  (chance, not secrets)
    began = time.monotonic()
    with ThreadPoolExecutor(int(WRITES_PER_S * 2)) as pool:
        number = 0
        while (now := time.monotonic() - began) < seconds:
            if now * WRITES_PER_S < number:
                time.sleep(0.002)
                continue
            number += 1
            pool.submit(_one, fleet, rng.choice(tenants), number, seen)


def _one(fleet: Fleet, tenant: Tenant, number: int, seen: _Seen) -> None:
    line = orjson.dumps(records.document(tenant.name, number % 50, number))
    try:
        version = fleet.write(tenant, line)
    except MemlaneError:
        with seen.lock:
            seen.failed += 1
        return
    began = time.monotonic()
    if number % 2:
        spent, older = _asked(fleet, tenant, version), 0
        kept = seen.min_version_ms
        if spent is not None and spent < 0:
            spent, older = None, 1
    else:
        spent, older, kept = _looked(fleet, tenant, version, began), 0, seen.visible_ms
    with seen.lock:
        seen.writes += 1
        seen.older += older
        if spent is None:
            seen.lost += 1 - older
        else:
            kept.append(spent)


def _asked(fleet: Fleet, tenant: Tenant, version: int) -> float | None:
    """How long an answer with `min_version` takes; negative when it is older than asked."""
    began = time.monotonic()
    body = {"q": "gateway", "min_version": version, "limit": 1}
    answer = fleet.http.post(f"{fleet.readers[0].url}/v1/search", json=body, headers=tenant.headers)
    if answer.status_code != OK:
        return None
    return timed_ms(began) if answer.json()["index"]["version"] >= version else -1.0


def _looked(fleet: Fleet, tenant: Tenant, version: int, began: float) -> float | None:
    """How long until the reader's own version gets there, looking again and again."""
    while time.monotonic() - began < GIVEN_UP_S:
        answer = fleet.http.get(f"{fleet.readers[0].url}/v1/index", headers=tenant.headers)
        if answer.status_code == OK and answer.json()["version"] >= version:
            return timed_ms(began)
        time.sleep(LOOK_S)
    return None


def _warm(fleet: Fleet, tenant: Tenant) -> None:
    url = f"{fleet.readers[0].url}/v1/index"
    wait_for(
        lambda: fleet.http.get(url, headers=tenant.headers).status_code == OK,
        60,
        "a tenant on the reader",
    )
