"""Attributes as OTLP carries them, as texts."""

from __future__ import annotations

from typing import Any


def attributes_of(pairs: Any) -> dict[str, str]:
    """Names and values of repeated `KeyValue`; truth values in lower case."""
    found = {}
    for pair in pairs:
        value = getattr(pair.value, pair.value.WhichOneof("value") or "string_value")
        found[pair.key] = str(value).lower() if isinstance(value, bool) else str(value)
    return found
