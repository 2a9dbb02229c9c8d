"""Reports as the API gives them and the pages show them."""

from __future__ import annotations

import dataclasses
import math
from functools import partial
from typing import Any, Final

from service.operator import summary
from service.telemetry import stories
from service.telemetry.figures_read import MINUTE_MS, OTHERS_NAME, FiguresReader, Series, Window
from service.telemetry.stories import Story

PAGE_TENANTS: Final = 50
"""Tenants on one page of the list."""
NOTABLE: Final = 20
"""Slow or degraded searches that a report names."""


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """Which tenants to list.

    Attributes:
        order: one of `summary.ORDERS`.
        text: names hold this.
        page: from 1.
    """

    order: str = "cpu"
    text: str = ""
    page: int = 1


def overview(reader: FiguresReader, window: Window, listing: Listing) -> dict[str, Any]:
    """All searches of the node, its tenants by cost, and the last searches worth a look.

    Raises:
        Unavailable: the figures cannot be read just now.
    """
    sums = reader.tenants(window)
    others = sums.pop(OTHERS_NAME, None)
    rows = [summary.row(name, found) for name, found in sums.items() if listing.text in name]
    pages = max(1, math.ceil(len(rows) / PAGE_TENANTS))
    page = min(max(1, listing.page), pages)
    ordered = summary.ordered(rows, listing.order)
    return {
        **_of(reader.node(window)),
        "tenants": {
            "count": len(sums),
            "matching": len(rows),
            "order": listing.order,
            "text": listing.text,
            "page": page,
            "pages": pages,
            "rows": ordered[(page - 1) * PAGE_TENANTS : page * PAGE_TENANTS],
            "others": None if others is None else summary.numbers(others),
        },
        "notable": _latest(reader, None),
        "figures_lost": reader.lost(),
    }


def tenant(reader: FiguresReader, window: Window, name: str) -> dict[str, Any] | None:
    """One tenant's searches; None when this node keeps nothing of it.

    Raises:
        Unavailable: the figures cannot be read just now.
    """
    found = reader.tenant(window, name)
    if found is None:
        return None
    row = summary.row(name, found.total)
    size = {key: row[key] for key in ("documents", "version")}
    return {"tenant": name, **_of(found), **size, "notable": _latest(reader, name)}


def query(reader: FiguresReader, request_id: str) -> dict[str, Any] | None:
    """One search's story; None when it is not kept.

    Raises:
        Unavailable: the figures cannot be read just now.
    """
    story = reader.stories(partial(stories.find, request_id=request_id))
    if story is None:
        return None
    phases = [dataclasses.asdict(phase) for phase in story.phases]
    return {**_line(story), "facts": story.facts, "phases": phases}


def _of(series: Series) -> dict[str, Any]:
    window = series.window
    return {
        "window": {
            "since_ms": window.since * MINUTE_MS,
            "until_ms": window.until * MINUTE_MS,
            "width_ms": window.width * MINUTE_MS,
        },
        "total": summary.numbers(series.total),
        "series": summary.series(series),
    }


def _latest(reader: FiguresReader, tenant: str | None) -> list[dict[str, Any]]:
    found = reader.stories(partial(stories.latest, tenant=tenant, limit=NOTABLE))
    return [_line(story) for story in found]


def _line(story: Story) -> dict[str, Any]:
    facts = story.facts
    return {
        "id": story.id,
        "at_ms": story.at_ms,
        "tenant": story.tenant,
        "state": facts["state"],
        "reason": facts["reason"],
        "total_ms": facts["total_ms"],
        "temperature": facts["temperature"],
        "notable": story.notable,
    }
