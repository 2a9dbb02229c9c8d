"""What the OpenAPI document says of a call."""

from __future__ import annotations

from typing import Any

from service.http.shapes import Schema


def call(
    summary: str,
    answer: str,
    *,
    body: str | Schema | None = None,
    status: str = "200",
    parameters: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """A call that needs a key."""
    made: dict[str, Any] = {
        "summary": summary,
        "responses": {
            status: {"description": "Done.", "content": json_of(ref(answer))},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if body is not None:
        schema = ref(body) if isinstance(body, str) else body
        made["requestBody"] = {"required": True, "content": json_of(schema)}
    if parameters:
        made["parameters"] = parameters
    return made


def open_call(
    summary: str, schema: Schema, *, parameters: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """A call that needs no key."""
    made: dict[str, Any] = {
        "summary": summary,
        "security": [],
        "responses": {
            "200": {"description": "Done.", "content": json_of(schema)},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }
    if parameters:
        made["parameters"] = parameters
    return made


def ref(name: str) -> dict[str, Any]:
    """A named schema."""
    return {"$ref": f"#/components/schemas/{name}"}


def json_of(schema: Schema) -> dict[str, Any]:
    """A JSON body."""
    return {"application/json": {"schema": schema}}
