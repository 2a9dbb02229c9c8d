"""The first answer of a tenant that a reader does not hold, by size of its file."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import httpx
import orjson

from golden import metrics
from golden.fleet import objects, records
from golden.fleet.process import wait_for
from golden.fleet.world import OK, Fleet, Tenant, running, timed_ms
from service.errors import SetupError

SIZES_MIB = (1, 10, 50)
TRIALS = 12
PAIR = 2
"""Tenants of each size: asking one makes the reader, which keeps a single one, drop the other."""
BATCH_DOCUMENTS = 1_000
BATCH_WORDS = 400
EVICTION_S = 1.0
ATTEMPTS = 10
MIB = 1024 * 1024

Progress = Callable[[str], None]


def run(
    *, kind: objects.Kind, sizes_mib: tuple[int, ...] = SIZES_MIB, progress: Progress
) -> dict[str, Any]:
    """Fill tenants up to a size, then ask for them in turns on a reader with room for one.

    Returns:
        `{"store", "sizes": {MIB: {"bytes", "trials", "first_answer_ms": {p50, p90, p99}}}}`;
        every trial's answer said by itself that it was `cold`.

    Raises:
        SetupError: an answer was not cold, so nothing was measured; or no S3 server is installed.
        Unavailable: the fleet did not come up.
    """
    with running(kind, environ={"MEMLANE_RESIDENT_TENANTS": "1"}) as fleet:
        sizes = {}
        for size in sizes_mib:
            pair = [_tenant_of(fleet, f"size{size}-{number}", size) for number in range(PAIR)]
            progress(f"{size} MiB written")
            bytes_ = _await_replica(fleet, pair)
            spent = [_first_answer_ms(fleet, pair[trial % PAIR]) for trial in range(TRIALS)]
            sizes[str(size)] = {
                "bytes": bytes_,
                "trials": len(spent),
                "first_answer_ms": metrics.percentiles(spent),
            }
            progress(f"{size} MiB: {sizes[str(size)]['first_answer_ms']}")
    return {"store": kind, "sizes": sizes}


def _tenant_of(fleet: Fleet, name: str, size_mib: int) -> Tenant:
    tenant = fleet.create(name)
    number = 0
    while _file_bytes(fleet, tenant) < size_mib * MIB:
        # Small tenants are grown in small steps, so that they end near their size.
        count = BATCH_DOCUMENTS if size_mib > 1 else BATCH_DOCUMENTS // 8
        lines = b"\n".join(
            orjson.dumps(records.document(name, number + step, 0, words=BATCH_WORDS))
            for step in range(count)
        )
        fleet.write(tenant, lines, durability="replicated")
        number += count
    return tenant


def _file_bytes(fleet: Fleet, tenant: Tenant) -> int:
    answer = fleet.http.get(f"{fleet.writers[0].url}/v1/index", headers=tenant.headers)
    return int(answer.json()["bytes"]) if answer.status_code == OK else 0


def _await_replica(fleet: Fleet, pair: list[Tenant]) -> int:
    """Wait until the reader knows both; the size of what it holds."""
    size = 0
    for tenant in pair:
        wait_for(
            lambda tenant=tenant: _ask(fleet, tenant).status_code == OK,  # type: ignore[misc]
            60,
            "a tenant on the reader",
        )
        size = _file_bytes(fleet, tenant)
    return size


def _first_answer_ms(fleet: Fleet, tenant: Tenant) -> float:
    """Ask until an answer says that it was the first one; the time that it took."""
    for _ in range(ATTEMPTS):
        time.sleep(EVICTION_S)
        began = time.monotonic()
        answer = _ask(fleet, tenant)
        spent = timed_ms(began)
        if answer.status_code != OK:
            told = f"{answer.status_code} {answer.text[:200]}"
            raise SetupError(f"a cold tenant was not answered: {told}")
        if answer.json()["index"]["temperature"] == "cold":
            return spent
    raise SetupError("the reader does not let go of a tenant, so no start was cold")


def _ask(fleet: Fleet, tenant: Tenant) -> httpx.Response:
    body = {"q": "gateway retry", "limit": 10}
    url = f"{fleet.readers[0].url}/v1/search"
    return fleet.http.post(url, json=body, headers=tenant.headers)
