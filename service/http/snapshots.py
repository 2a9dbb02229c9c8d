"""Reading a tenant's file in a thread, without letting those who wait hold up those who need not.

A call that must wait for a replica to catch up or to arrive waits in threads of its own; only
then does it take one of the few places where work is done.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TypeVar

from service.errors import ReplicaBehind, Unavailable
from service.http.limits import Busy
from service.http.node import Node, Opened
from service.tenancy.records import Tenant

_T = TypeVar("_T")


async def read_file(
    node: Node,
    tenant: Tenant,
    work: Callable[[Opened], _T],
    *,
    min_version: int | None = None,
    max_staleness_ms: int | None = None,
    took_ms: dict[str, float] | None = None,
) -> _T:
    """Do some work on a tenant's file, fresh enough for the caller.

    `took_ms` is told, under `open`, how long it took until the file was there.

    Raises:
        NotFound: there is no such file.
        Unavailable: it is not here in time, or this worker is busy.
        ReplicaBehind: it did not become fresh enough in time.
        IndexFileError: it cannot be used.
    """
    told = {} if took_ms is None else took_ms
    told["open"] = 0.0

    def opened(deadline_ms: int) -> AbstractContextManager[Opened]:
        return node.files.open(
            tenant.file,
            min_version=min_version,
            max_staleness_ms=max_staleness_ms,
            deadline_ms=deadline_ms,
        )

    def now() -> _T:
        with ExitStack() as stack:
            begun = time.perf_counter()
            with node.telemetry.span("replica.open"):
                file = stack.enter_context(opened(0))
            told["open"] += (time.perf_counter() - begun) * 1_000
            return work(file)

    def wait(deadline_ms: int) -> None:
        with opened(deadline_ms):
            pass

    begun = time.monotonic()
    try:
        return await node.searches.run(now)
    except Busy:
        raise
    except (ReplicaBehind, Unavailable):
        left_ms = node.settings.search_deadline_ms - int((time.monotonic() - begun) * 1_000)
        if left_ms <= 0:
            raise
    began = time.perf_counter()
    await node.waits.run(partial(wait, left_ms))
    told["open"] += (time.perf_counter() - began) * 1_000
    return await node.searches.run(now)
