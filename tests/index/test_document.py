from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidDocument
from service.index.document import Delete, Document, Upsert, parse_line
from service.settings import Settings

NOW = 1_790_000_000_000
LIMITS = Settings()


def parse(value: Any) -> Upsert | Delete:
    raw = value if isinstance(value, bytes) else json.dumps(value).encode()
    return parse_line(raw, number=7, now_ms=NOW, limits=LIMITS)


def test_a_full_line_becomes_a_document() -> None:
    operation = parse(
        {
            "op": "upsert",
            "kind": "note",
            "ref": "n1",
            "title": "T",
            "summary": "S",
            "note": "N",
            "meta": "M",
            "updated_at": 5,
            "identifiers": ["b", "a", "b"],
        }
    )
    assert operation == Upsert(
        line=7,
        document=Document(
            kind="note",
            ref="n1",
            title="T",
            summary="S",
            note="N",
            meta="M",
            updated_at=5,
            identifiers=("a", "b"),
        ),
    )


def test_op_defaults_to_upsert_and_updatedat_is_accepted() -> None:
    operation = parse({"kind": "note", "ref": "n1", "updatedAt": 9})
    assert isinstance(operation, Upsert)
    assert operation.document.updated_at == 9


def test_a_missing_time_is_now_and_nulls_are_empty() -> None:
    operation = parse({"kind": "note", "ref": "n1", "title": None, "identifiers": None})
    assert isinstance(operation, Upsert)
    assert (operation.document.updated_at, operation.document.title) == (NOW, "")


def test_delete_takes_an_identity_only() -> None:
    assert parse({"op": "delete", "kind": "note", "ref": "n1"}) == Delete(
        line=7, kind="note", ref="n1"
    )
    with pytest.raises(InvalidDocument, match="unknown field title"):
        parse({"op": "delete", "kind": "note", "ref": "n1", "title": "x"})


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (b"{", "not JSON"),
        (b'{"kind":"note","ref":"\xff"}', "not JSON"),
        ([1], "not a JSON object"),
        ({"kind": "note"}, "`ref` is missing"),
        ({"ref": "n1"}, "`kind` is missing"),
        ({"kind": "note", "ref": "  "}, "`ref` is missing or blank"),
        ({"kind": "note", "ref": "a\nb"}, "control character"),
        ({"kind": "no te", "ref": "a"}, "not a plain word"),
        ({"kind": "note", "ref": "r" * 513}, "longer than 512 bytes"),
        ({"kind": "note", "ref": "語" * 171}, "longer than 512 bytes"),
        ({"kind": "note", "ref": "a", "title": 3}, "`title` is not a string"),
        ({"kind": "note", "ref": "a", "note": "x\0y"}, "NUL"),
        ({"kind": "note", "ref": "a", "updated_at": "5"}, "not a whole number"),
        ({"kind": "note", "ref": "a", "updated_at": True}, "not a whole number"),
        ({"kind": "note", "ref": "a", "updated_at": -1}, "not a time"),
        ({"kind": "note", "ref": "a", "updated_at": 10**18}, "not a time"),
        ({"kind": "note", "ref": "a", "updated_at": NOW + 2 * 86_400_000}, "in the future"),
        ({"kind": "note", "ref": "a", "updated_at": 1, "updatedAt": 1}, "both"),
        ({"kind": "note", "ref": "a", "identifiers": "x"}, "not a list"),
        ({"kind": "note", "ref": "a", "identifiers": [1]}, "not a plain string"),
        ({"kind": "note", "ref": "a", "identifiers": ["x"] * 257}, "more than 256"),
        ({"kind": "note", "ref": "a", "colour": "red"}, "unknown field colour"),
        ({"op": "merge", "kind": "note", "ref": "a"}, "neither"),
    ],
)
def test_what_cannot_be_read_is_named(value: Any, says: str) -> None:
    with pytest.raises(InvalidDocument, match=says):
        parse(value)


@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(repr))
def test_any_bytes_are_read_or_refused(raw: bytes | str) -> None:
    with contextlib.suppress(InvalidDocument):
        parse(raw.encode() if isinstance(raw, str) else raw)


def test_content_hash_counts_every_text_and_not_their_order_of_identifiers() -> None:
    base = Document(kind="k", ref="r", title="a", note="b", identifiers=("x", "y"))
    same = Document(kind="k", ref="r", title="a", note="b", identifiers=("y", "x"), updated_at=9)
    moved = Document(kind="k", ref="r", title="ab", note="", identifiers=("x", "y"))
    assert base.content_hash() == same.content_hash()
    assert base.content_hash() != moved.content_hash()
