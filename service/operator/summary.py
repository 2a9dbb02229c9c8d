"""Sums of searches as the numbers that an operator reads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from service.telemetry import figures_cells as cells
from service.telemetry.figures_read import MINUTE_MS, Series
from service.telemetry.figures_store import Sum

SHARES: Final = {"p50": 0.50, "p95": 0.95, "p99": 0.99}
UNWANTED: Final = ("requested", "identifier_query", "no_candidates")
"""Reasons for which a search without the semantic lane lost nothing; see `docs/SLO.md`."""
CIRCUIT_OPEN: Final = "circuit_open"
KINDS: Final = ("ok", "cold", "timeout", CIRCUIT_OPEN, "skipped", "disabled")
"""What a bar is stacked of: the states, with the one reason of `skipped` that is a fault apart."""


def states(found: Sum) -> dict[str, int]:
    """Searches by `state` or `state/reason`."""
    return {
        f"{state}/{reason}" if reason else state: count
        for (state, reason), count in cells.states(found.counts).items()
    }


def stacked(found: Sum) -> dict[str, int]:
    """Searches by `KINDS`."""
    counts = dict.fromkeys(KINDS, 0)
    for (state, reason), count in cells.states(found.counts).items():
        counts[CIRCUIT_OPEN if reason == CIRCUIT_OPEN else state] += count
    return counts


def lost_share(found: Sum) -> float | None:
    """Of the searches that wanted the semantic lane, how many went without; None of none."""
    wanted = lost = 0
    for (state, reason), count in cells.states(found.counts).items():
        if state == "disabled" or reason in UNWANTED:
            continue
        wanted += count
        lost += count if state != "ok" else 0
    return lost / wanted if wanted else None


def latency(found: Sum, name: str = "total") -> dict[str, float | int | None]:
    """`n` and percentiles in ms of a phase, or of the age of what was answered from."""
    buckets = cells.histogram(found.counts, name)
    told: dict[str, float | int | None] = {"n": int(buckets.sum())}
    for title, share in SHARES.items():
        value = cells.percentile_ms(buckets, share)
        told[title] = None if value is None else round(value, 3)
    return told


def numbers(found: Sum) -> dict[str, Any]:
    """All that is told of some searches together."""
    share = lost_share(found)
    return {
        "searches": cells.searches(found.counts),
        "states": states(found),
        "lost_share": None if share is None else round(share, 5),
        "latency_ms": {phase: latency(found, phase) for phase in cells.PHASES},
        "age_ms": latency(found, cells.AGE) | {"most": found.age_ms},
        "temperatures": cells.temperatures(found.counts),
        "cpu_s": round(found.cpu_us / 1e6, 3),
    }


def row(name: str, found: Sum) -> dict[str, Any]:
    """A tenant in the list of tenants."""
    total = latency(found)
    share = lost_share(found)
    return {
        "tenant": name,
        "searches": cells.searches(found.counts),
        "lost_share": None if share is None else round(share, 5),
        "p50_ms": total["p50"],
        "p99_ms": total["p99"],
        "age_ms": found.age_ms,
        "cpu_s": round(found.cpu_us / 1e6, 3),
        "documents": found.documents,
        "version": found.version,
    }


ORDERS: Final[Mapping[str, str]] = {
    "cpu": "cpu_s",
    "searches": "searches",
    "lost": "lost_share",
    "p99": "p99_ms",
    "age": "age_ms",
    "size": "documents",
    "name": "tenant",
}
"""How the list of tenants can be ordered, and by which column; names rise, figures fall."""


def ordered(rows: list[dict[str, Any]], order: str) -> list[dict[str, Any]]:
    """Rows of `row` in one of `ORDERS`; equal ones by name."""
    column = ORDERS[order]
    by_name = sorted(rows, key=lambda each: str(each["tenant"]))
    if order == "name":
        return by_name
    return sorted(by_name, key=lambda each: each[column] or 0, reverse=True)


def series(found: Series) -> list[dict[str, Any]]:
    """A bucket a line."""
    return [
        {
            "at_ms": at * MINUTE_MS,
            "states": {kind: count for kind, count in stacked(one).items() if count},
            "latency_ms": latency(one),
            "age_ms": one.age_ms,
            "temperatures": cells.temperatures(one.counts),
            "cpu_s": round(one.cpu_us / 1e6, 3),
        }
        for at, one in zip(found.window.buckets(), found.buckets, strict=True)
    ]
