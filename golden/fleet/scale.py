"""Many small tenants on one writer and one reader: does it hold, and what does it take?"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import orjson

from golden import metrics
from golden.fleet import objects, records
from golden.fleet.world import OK, THREADS, Fleet, Tenant, running, timed_ms
from service.errors import MemlaneError

DOCUMENTS = 3
"""Of each tenant."""
STEADY_S = 20.0
NEW_TENANTS = 5
WRITTEN_S = 180.0
NEW_TENANT_S = 30.0

#: What a process may hold, from measured figures: a part that does not grow, and one a tenant.
#: Litestream keeps 6 descriptors and about 0.45 MB a database (0.5.17).
FILES_BOUND = {"litestream": (200, 7.0), "web": (1_200, 0.0), "follower": (300, 0.0)}
MEMORY_BOUND_MIB = {"litestream": (150, 0.6), "web": (400, 0.02), "follower": (200, 0.05)}
OTHER_FILES, OTHER_MEMORY_MIB = 100, 120

Progress = Callable[[str], None]


def run(tenants: int, *, kind: objects.Kind, progress: Progress) -> dict[str, Any]:
    """Create tenants, write to each, search each, and measure what the fleet holds.

    Returns:
        `{"tenants", "failed", "create_s", "search_ms": {p50, p90, p99},
        "new_tenant_ms": {p50, p90, p99}, "processes": [{name, memory_mib, files, cpu_percent}],
        "over_bound": [..]}`.

    Raises:
        SetupError: the store's server is not installed.
        Unavailable: the fleet did not come up, or took no tenant.
    """
    with running(kind, environ={"MEMLANE_RESIDENT_TENANTS": str(tenants + 100)}) as fleet:
        began = time.monotonic()
        made = fleet.create_many([f"t{number:05d}" for number in range(tenants)])
        create_s = time.monotonic() - began
        progress(f"{tenants} tenants created in {create_s:.0f} s")
        with ThreadPoolExecutor(THREADS) as pool:
            versions = list(pool.map(lambda tenant: _fill(fleet, tenant), made))
            progress("written")
            spent = list(
                pool.map(lambda pair: _search(fleet, *pair), zip(made, versions, strict=False))
            )
        failed = sum(one is None for one in spent)
        progress(f"searched, {failed} failed")
        processes = _steady(fleet)
        new = [_new_tenant_ms(fleet, number) for number in range(NEW_TENANTS)]
    return {
        "tenants": tenants,
        "failed": failed + sum(one is None for one in new),
        "store": kind,
        "create_s": round(create_s, 1),
        "search_ms": metrics.percentiles([one for one in spent if one is not None]),
        "new_tenant_ms": metrics.percentiles([one for one in new if one is not None]),
        "processes": processes,
        "over_bound": _over(processes, tenants),
    }


def _fill(fleet: Fleet, tenant: Tenant) -> int | None:
    lines = b"\n".join(
        orjson.dumps(records.document(tenant.name, number, 0)) for number in range(DOCUMENTS)
    )
    deadline = time.monotonic() + WRITTEN_S
    while True:
        try:
            return fleet.write(tenant, lines)
        except MemlaneError:  # a writer that is behind refuses batches until it has caught up
            if time.monotonic() > deadline:
                return None
            time.sleep(1.0)


def _search(fleet: Fleet, tenant: Tenant, version: int | None) -> float | None:
    """Search a tenant on the reader for its own documents; None when they are not found."""
    if version is None:
        return None
    began = time.monotonic()
    deadline = began + NEW_TENANT_S
    while time.monotonic() < deadline:
        began = time.monotonic()
        body = {"q": f"{tenant.name} entry", "min_version": version, "limit": DOCUMENTS}
        try:
            answer = fleet.http.post(
                f"{fleet.readers[0].url}/v1/search", json=body, headers=tenant.headers
            )
        except httpx.HTTPError:
            continue
        if answer.status_code == OK:
            found = {hit["ref"] for hit in answer.json()["hits"]}
            whole = found == {records.ref(number) for number in range(DOCUMENTS)}
            return timed_ms(began) if whole else None
        time.sleep(0.1)  # the key or the file has not arrived yet
    return None


def _new_tenant_ms(fleet: Fleet, number: int) -> float | None:
    """From the call that creates a tenant to its first document found on the reader."""
    began = time.monotonic()
    try:
        tenant = fleet.create(f"new{number}")
    except MemlaneError:
        return None
    return None if _search(fleet, tenant, _fill(fleet, tenant)) is None else timed_ms(began)


def _steady(fleet: Fleet) -> list[dict[str, Any]]:
    """Each process's use, and its share of a core while nothing is asked."""
    before = [use.cpu_s for use in fleet.usage()]
    time.sleep(STEADY_S)
    after = fleet.usage()
    idle = [use.cpu_s - was for use, was in zip(after, before, strict=False)]
    return [
        {
            "name": use.name,
            "memory_mib": round(use.memory_mib, 1),
            "files": use.files,
            "cpu_percent": round(100 * spent / STEADY_S, 1),
        }
        for use, spent in zip(after, idle, strict=False)
    ]


def _over(processes: Sequence[dict[str, Any]], tenants: int) -> list[str]:
    """The processes that hold more than they may."""
    over = []
    for process in processes:
        role = process["name"].split("/")[1]
        files, each = FILES_BOUND.get(role, (OTHER_FILES, 0.0))
        memory, one = MEMORY_BOUND_MIB.get(role, (OTHER_MEMORY_MIB, 0.0))
        if process["files"] > files + each * tenants:
            over.append(f"{process['name']}: {process['files']} files")
        if process["memory_mib"] > memory + one * tenants:
            over.append(f"{process['name']}: {process['memory_mib']} MiB")
    return over
