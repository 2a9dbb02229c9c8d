"""The calls that agents read with, in the OpenAPI document; each answers as Markdown too."""

from __future__ import annotations

from typing import Any

from service.http.openapi_calls import call, json_of, open_call, ref
from service.http.schemas_reading import SEARCH_PARAMETERS


def reading() -> dict[str, Any]:
    """Paths and what they do."""
    searches = {
        "post": call(
            "Search. CompactResult for the layer `compact`, BoundedResult with `limit_tokens`. "
            "Scope `search`.",
            "SearchResult",
            body="SearchRequest",
        ),
        "get": call(
            "Search, with the same fields as parameters. Scope `search`.",
            "SearchResult",
            parameters=SEARCH_PARAMETERS,
        ),
    }
    results = [ref(name) for name in ("SearchResult", "CompactResult", "BoundedResult")]
    for made in searches.values():
        made["responses"]["200"]["content"] = json_of({"oneOf": results})
    paths: dict[str, Any] = {
        "/v1/search": searches,
        "/v1/timeline": {
            "post": call(
                "What was changed before and after a document. Scope `search`.",
                "Timeline",
                body="TimelineRequest",
            )
        },
        "/v1/documents:get": {
            "post": call("Whole documents. Scope `search`.", "Documents", body="GetRequest")
        },
        "/v1/prefetch": {
            "post": call(
                "What a text is about, never later than the budget. Scope `search`.",
                "Prefetched",
                body="PrefetchRequest",
            )
        },
    }
    for path in paths.values():
        for made in path.values():
            made["responses"]["200"]["content"]["text/markdown"] = {"schema": {"type": "string"}}
    paths["/mcp"] = {"post": _mcp()}
    return paths


def _mcp() -> dict[str, Any]:
    message = {"type": "object", "description": "A JSON-RPC 2.0 message."}
    made = open_call("The layers as tools of the Model Context Protocol. Scope `search`.", message)
    made["requestBody"] = {"required": True, "content": json_of(message)}
    made["responses"]["202"] = {"description": "A notification was taken."}
    del made["security"]
    return made
