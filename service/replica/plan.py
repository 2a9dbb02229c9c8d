"""Which LTX files bring a database from one transaction to another. Pure: names in, names out.

Litestream compacts level 0 (one file a sync) into wider files at levels 1 to 8 and writes
snapshots at level 9; a file `<min>-<max>.ltx` carries the final state of every page that changed
in its range. So it may be applied to any state from `min - 1` to `max - 1`, and leaves state `max`.
A file that starts at 1 stands alone.
"""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
from collections.abc import Iterable

#: What one more object costs, in bytes worth fetching instead (one round trip).
OBJECT_COST_BYTES = 64 * 1024

_NAME = re.compile(r"(?:^|/)(\d{1,4})/([0-9a-f]{16})-([0-9a-f]{16})\.ltx$")


@dataclasses.dataclass(frozen=True, slots=True)
class LtxName:
    """One listed object: its key, level, first and last transaction, size in bytes."""

    key: str
    level: int
    min_txid: int
    max_txid: int
    size: int


def parse(key: str, size: int) -> LtxName | None:
    """Read `.../<level>/<min>-<max>.ltx`; None for any other key."""
    if (match := _NAME.search(key)) is None:
        return None
    low, high = int(match[2], 16), int(match[3], 16)
    if not 0 < low <= high:
        return None
    return LtxName(key, int(match[1]), low, high, size)


def file_name(min_txid: int, max_txid: int) -> str:
    """The name Litestream gives a file of these transactions."""
    return f"{min_txid:016x}-{max_txid:016x}.ltx"


@dataclasses.dataclass(frozen=True, slots=True)
class _Step:
    txid: int
    cost: int
    name: LtxName | None
    before: _Step | None


def bridge(names: Iterable[LtxName], after: int, to: int) -> list[LtxName] | None:
    """The cheapest files that lead from state `after` to state `to` or beyond, in order.

    Cost is bytes plus `OBJECT_COST_BYTES` a file. `after` 0 means nothing is there yet.
    Files are taken by growing `max`; among the states reached so far only those that are cheaper
    than every later one can matter, so they form a stack whose costs grow with their transaction.

    Returns:
        The files; empty when `after` is already there; None when none bridge.
    """
    if after >= to:
        return []
    useful = sorted((n for n in names if n.max_txid > after), key=lambda n: n.max_txid)
    steps = [_Step(after, 0, None, None)]
    goal: _Step | None = None
    for high, group in itertools.groupby(useful, key=lambda n: n.max_txid):
        best: _Step | None = None
        for name in group:
            at = bisect.bisect_left(steps, name.min_txid - 1, key=lambda step: step.txid)
            if at == len(steps):
                continue
            before = steps[at]
            cost = before.cost + name.size + OBJECT_COST_BYTES
            if best is None or cost < best.cost:
                best = _Step(high, cost, name, before)
        if best is None:
            continue
        if high >= to and (goal is None or best.cost < goal.cost):
            goal = best
        while steps and steps[-1].cost >= best.cost:
            steps.pop()
        steps.append(best)
    return None if goal is None else _path(goal)


def furthest(names: Iterable[LtxName], after: int = 0) -> int:
    """The last state that can be reached from `after` without a gap."""
    reach = after
    for name in sorted(names, key=lambda n: n.min_txid):
        if name.min_txid <= reach + 1:
            reach = max(reach, name.max_txid)
    return reach


def _path(step: _Step) -> list[LtxName]:
    path: list[LtxName] = []
    at: _Step | None = step
    while at is not None and at.name is not None:
        path.append(at.name)
        at = at.before
    return path[::-1]
