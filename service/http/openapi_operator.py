"""The operator's calls, in the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from service.http.openapi_calls import call
from service.http.shapes import (
    ANY_OBJECT,
    COUNT,
    MS,
    NUMBERS,
    TEXT,
    Schema,
    exactly,
    list_of,
    or_null,
    parameter,
)
from service.operator import summary

NUMBER: Final[Schema] = {"type": "number", "minimum": 0}
SPREAD: Final = exactly(n=COUNT, p50=or_null(NUMBER), p95=or_null(NUMBER), p99=or_null(NUMBER))
TOTAL: Final = exactly(
    searches=COUNT,
    states={**NUMBERS, "description": "By `state` or `state/reason`."},
    lost_share=or_null({**NUMBER, "description": "Of the searches that wanted vectors."}),
    latency_ms={"type": "object", "additionalProperties": SPREAD, "description": "By phase."},
    age_ms={**ANY_OBJECT, "description": "Of what was answered from; `most` is the oldest."},
    temperatures=NUMBERS,
    cpu_s=NUMBER,
)
LINE: Final = exactly(
    at_ms=MS,
    states=NUMBERS,
    latency_ms=SPREAD,
    age_ms=COUNT,
    temperatures=NUMBERS,
    cpu_s=NUMBER,
)
ROW: Final = exactly(
    tenant=TEXT,
    searches=COUNT,
    lost_share=or_null(NUMBER),
    p50_ms=or_null(NUMBER),
    p99_ms=or_null(NUMBER),
    age_ms=COUNT,
    cpu_s=NUMBER,
    documents=COUNT,
    version=COUNT,
)
STORY_LINE: Final[Mapping[str, Schema]] = {
    "id": TEXT,
    "at_ms": MS,
    "tenant": TEXT,
    "state": TEXT,
    "reason": or_null(TEXT),
    "total_ms": NUMBER,
    "temperature": TEXT,
    "notable": {"type": "boolean"},
}
_COMMON: Final[Mapping[str, Schema]] = {
    "window": exactly(since_ms=MS, until_ms=MS, width_ms=COUNT),
    "total": TOTAL,
    "series": list_of(LINE),
    "notable": list_of(exactly(**STORY_LINE)),
}
OVERVIEW: Final = exactly(
    node=exactly(role=TEXT, host=TEXT, release=TEXT),
    health=ANY_OBJECT,
    backfill=or_null(ANY_OBJECT),
    staleness_ms=COUNT,
    tenants=exactly(
        count=COUNT,
        matching=COUNT,
        order=TEXT,
        text=TEXT,
        page=COUNT,
        pages=COUNT,
        rows=list_of(ROW),
        others=or_null(TOTAL),
    ),
    figures_lost=COUNT,
    **_COMMON,
)
OPERATED_TENANT: Final = exactly(tenant=TEXT, documents=COUNT, version=COUNT, **_COMMON)
STORY: Final = exactly(
    facts=ANY_OBJECT,
    phases=list_of(exactly(name=TEXT, begin_ms=NUMBER, took_ms=NUMBER)),
    **STORY_LINE,
)
_MINUTES: Final = parameter(
    "minutes", {"type": "integer", "minimum": 1, "default": 60}, about="How far back."
)


def operating() -> dict[str, Any]:
    """Paths and what they do."""
    scope = "Scope `operator`."
    orders = {"type": "string", "enum": list(summary.ORDERS), "default": "cpu"}
    listing = [
        _MINUTES,
        parameter("order", orders, about="Of the tenants."),
        parameter("text", TEXT, about="Tenants whose names hold it."),
        parameter("page", {"type": "integer", "minimum": 1, "default": 1}),
    ]
    return {
        "/v1/operator/overview": {
            "get": call(
                f"All searches of this node, from its own figures. {scope}",
                "Overview",
                parameters=listing,
            )
        },
        "/v1/operator/tenants/{name}": {
            "get": call(
                f"One tenant's searches on this node. {scope}",
                "OperatedTenant",
                parameters=[parameter("name", TEXT, where="path", required=True), _MINUTES],
            )
        },
        "/v1/operator/queries/{id}": {
            "get": call(
                f"What one search went through, without what it asked. {scope}",
                "Story",
                parameters=[parameter("id", TEXT, where="path", required=True)],
            )
        },
    }
