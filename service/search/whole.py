"""Whole documents within bounds; what was cut or left out is said by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import orjson

from service.index import carried
from service.index.document import Document
from service.index.reader import IndexReader
from service.text.tokens import estimate_tokens

TEXTS: Final = ("title", "summary", "meta", "note")
"""A document's texts in the order in which they are given room: the long one last."""

Name = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Whole:
    """Documents that were asked for.

    Attributes:
        documents: as they are shown.
        full: what each costs uncut, estimated tokens.
        missing: there are none of these.
        cut: texts that end early: kind, ref, field, chars, of_chars.
        left_out: documents for which there was no room.
    """

    documents: list[dict[str, Any]]
    full: list[int]
    missing: list[Name]
    cut: list[Name]
    left_out: list[Name]


def fill(
    reader: IndexReader, keys: Sequence[tuple[str, str]], most_bytes: int, *, vectors: bool = False
) -> Whole:
    """Documents in the order asked, until their texts take `most_bytes` bytes of JSON.

    Args:
        reader: inside its snapshot.
        keys: kind and ref of each.
        most_bytes: that many.
        vectors: with those of the documents that have all of theirs, as far as there is room.
    """
    room = most_bytes
    found = Whole([], [], [], [], [])
    for kind, ref in dict.fromkeys(keys):
        name: Name = {"kind": kind, "ref": ref}
        if room <= 0:
            found.left_out.append(name)
            continue
        (document,) = reader.get([(kind, ref)])
        if document is None:
            found.missing.append(name)
            continue
        if _json_bytes(document.title) + _json_bytes(document.identifiers) > room:
            found.left_out.append(name)
            room = 0  # what comes after is left out too, so that the order asked for holds
            continue
        shown, cuts = _fit(document, room)
        room -= sum(_json_bytes(shown[field]) for field in (*TEXTS, "identifiers"))
        if vectors and (has := reader.carried(kind, ref)) is not None:
            packed = carried.shape(has)
            if (size := _json_bytes(packed)) <= room:
                shown["vectors"] = packed
                room -= size
            else:
                cuts.append({"field": "vectors", "chars": 0, "of_chars": size})
        found.documents.append(shown)
        found.full.append(estimate_tokens("\n".join(getattr(document, name) for name in TEXTS)))
        found.cut.extend({**name, **each} for each in cuts)
    return found


def _fit(document: Document, room: int) -> tuple[dict[str, Any], list[dict[str, object]]]:
    """A document whose texts take at most `room` bytes of JSON, and what that cost."""
    shown: dict[str, Any] = {
        "kind": document.kind,
        "ref": document.ref,
        "updated_at": document.updated_at,
        "identifiers": list(document.identifiers),
    }
    cuts: list[dict[str, object]] = []
    room -= _json_bytes(shown["identifiers"])
    for field in TEXTS:
        text: str = getattr(document, field)
        shown[field] = part = _head(text, room)
        room -= _json_bytes(part)
        if len(part) < len(text):
            cuts.append({"field": field, "chars": len(part), "of_chars": len(text)})
    return shown, cuts


def _head(text: str, room: int) -> str:
    """The longest beginning of a text that takes at most `room` bytes as a JSON string."""
    if _json_bytes(text) <= room:
        return text
    low, high = 0, min(len(text), max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if _json_bytes(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _json_bytes(value: object) -> int:
    return len(orjson.dumps(value))
