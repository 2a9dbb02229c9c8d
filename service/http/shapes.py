"""What schemas are made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = Mapping[str, Any]

TEXT: Final = {"type": "string"}
COUNT: Final = {"type": "integer", "minimum": 0}
MS: Final = {"type": "integer", "minimum": 0, "description": "ms since 1970, UTC"}
FLAG: Final = {"type": "boolean"}
NUMBERS: Final = {"type": "object", "additionalProperties": {"type": "number"}}
ANY_OBJECT: Final = {"type": "object"}
TIME: Final = {
    "oneOf": [MS, {"type": "string", "description": "ISO 8601 date or time; UTC without a zone"}]
}


def fields(required: tuple[str, ...] = (), **properties: Schema) -> dict[str, Any]:
    """An object with these properties and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


def parameter(
    name: str, schema: Schema, *, where: str = "query", required: bool = False, about: str = ""
) -> dict[str, Any]:
    """A parameter of a call."""
    return {
        "name": name,
        "in": where,
        "required": required,
        "schema": schema,
        **({"description": about} if about else {}),
    }


def exactly(**properties: Schema) -> dict[str, Any]:
    """An object that always has all of these properties."""
    return fields(tuple(properties), **properties)


def list_of(schema: Schema) -> dict[str, Any]:
    """An array of these."""
    return {"type": "array", "items": schema}


def or_null(schema: Schema) -> dict[str, Any]:
    """This or null."""
    return {"oneOf": [schema, {"type": "null"}]}


NAME: Final = exactly(kind=TEXT, ref=TEXT)

TEMPERATURE: Final = {
    "enum": ["hot", "warm", "cold"],
    "description": "hot: from an open file; warm: it was on this node; cold: it was brought here.",
}
INDEX: Final = exactly(
    version=COUNT,
    as_of={"type": "string", "format": "date-time"},
    age_ms=COUNT,
    docs=COUNT,
    temperature=TEMPERATURE,
)
