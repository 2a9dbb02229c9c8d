"""Vectors that travel with a document: what its source has embedded already is not embedded again.

They are kept when the model and the passage policy are those of the index and the passages stand in
the text as it was sent; otherwise they are ignored, and the backfill makes its own.
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Any, Final

from service.errors import InvalidDocument
from service.index.passages import PASSAGES_MOST

MODEL_CHARS: Final = 200
DIMS_MOST: Final = 4_096
_SHAPE: Final = 'Send {"model", "policy", "dropped_chars", "passages": [[begin, end, base64], ..]}.'
_FIELDS: Final = frozenset({"model", "policy", "dropped_chars", "passages"})


@dataclasses.dataclass(frozen=True, slots=True)
class Carried:
    """One document's vectors.

    Attributes:
        model: the id of the model that made them.
        policy: the passage policy by which its text was cut.
        passages: begin and end in code points of the document's source text, and the int8 vector.
        dropped_chars: how much of the text is in no passage.
    """

    model: str
    policy: int
    passages: tuple[tuple[int, int, bytes], ...]
    dropped_chars: int = 0


def parse(value: object) -> Carried:
    """What a line's field `vectors` says.

    Raises:
        InvalidDocument: it has another shape.
    """
    if not isinstance(value, dict) or not value.keys() <= _FIELDS:
        raise InvalidDocument("`vectors` is not what it should be", hint=_SHAPE)
    model, policy = value.get("model"), value.get("policy")
    dropped, passages = value.get("dropped_chars", 0), value.get("passages")
    if not isinstance(model, str) or not 0 < len(model) <= MODEL_CHARS:
        raise InvalidDocument("`vectors.model` is not a model's id", hint=_SHAPE)
    if policy is None or not _is_count(policy) or not _is_count(dropped):
        raise InvalidDocument(
            "`vectors.policy` or `vectors.dropped_chars` is not a whole number", hint=_SHAPE
        )
    if not isinstance(passages, list) or not 0 < len(passages) <= PASSAGES_MOST:
        raise InvalidDocument(f"`vectors.passages` is not 1 to {PASSAGES_MOST} passages")
    return Carried(model, policy, tuple(_passage(each) for each in passages), dropped)


def shape(carried: Carried) -> dict[str, Any]:
    """The field `vectors` that `parse` reads."""
    return {
        "model": carried.model,
        "policy": carried.policy,
        "dropped_chars": carried.dropped_chars,
        "passages": [
            [begin, end, base64.b64encode(vector).decode()]
            for begin, end, vector in carried.passages
        ],
    }


def _passage(value: object) -> tuple[int, int, bytes]:
    match value:
        case [int(begin), int(end), str(packed)] if 0 <= begin < end < 1 << 31:
            try:
                vector = base64.b64decode(packed, validate=True)
            except (binascii.Error, ValueError):
                vector = b""
            if 0 < len(vector) <= DIMS_MOST:
                return begin, end, vector
    raise InvalidDocument("`vectors.passages` holds something that is not a passage", hint=_SHAPE)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31
