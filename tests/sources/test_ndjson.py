from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import SetupError
from service.settings import Settings
from service.sources.ndjson import Ndjson
from service.sources.source import Document, Skipped, Unit

Write = Callable[..., Path]


def read(path: Path, **limits: int) -> tuple[list[Document], list[Skipped]]:
    source = Ndjson(path, Settings(**limits))
    documents: list[Document] = []
    skipped: list[Skipped] = []
    for unit in source.units():
        assert isinstance(unit, Unit)
        for found in source.read(unit):
            if isinstance(found, Document):
                documents.append(found)
            else:
                skipped.append(found)
    return documents, skipped


def test_every_field_travels(write: Write) -> None:
    line = {
        "kind": "task",
        "ref": "t-1",
        "title": "Ä\0b",
        "summary": None,
        "note": "n",
        "meta": "m",
        "updatedAt": 1_700_000_000_000,
        "identifiers": ["OPS-2", "OPS-1", "OPS-2"],
    }
    documents, skipped = read(write("one.ndjson", json.dumps(line)))
    assert skipped == []
    assert documents == [
        Document(
            kind="task",
            ref="t-1",
            title="Ä b",
            note="n",
            meta="m",
            updated_at=1_700_000_000_000,
            identifiers=("OPS-1", "OPS-2"),
        )
    ]


def test_bad_lines_are_told_by_number_and_the_others_kept(write: Write) -> None:
    lines = [
        b'{"kind":"note","ref":"a"}',
        b"",
        b"{oops",
        b'["a list"]',
        b'{"kind":"note"}',
        b'{"kind":"note","ref":"t","updated_at":"yesterday"}',
        b'{"kind":"note","ref":"x","title":"\xff"}',
        b'{"kind":"note","ref":"y","title":7}',
        b'{"kind":"note","ref":"long","note":"' + b"z" * 3_000 + b'"}',
        b'{"kind":"note","ref":"b","titel":"typo"}',
        b'{"kind":"note","ref":"b"}',
        b'{"kind":"note","ref":"half',
    ]
    documents, skipped = read(write("one.ndjson", b"\n".join(lines)), sync_line_bytes=2_000)
    assert [document.ref for document in documents] == ["a", "b"]
    assert [(each.where, each.reason) for each in skipped] == [
        ("line 3", "not JSON"),
        ("line 4", "not a JSON object"),
        ("line 5", "`ref` is missing or blank"),
        ("line 6", "`updated_at` is not a time in milliseconds since 1970"),
        ("line 7", "not UTF-8"),
        ("line 8", "`title` is not a string"),
        ("line 9", "longer than a document may be"),
        ("line 10", "unknown field titel"),
        ("line 12", "half-written"),
    ]


def test_vectors_travel_and_do_not_make_another_document(write: Write) -> None:
    vectors = {"model": "m", "passages": []}
    line = {"kind": "note", "ref": "a", "vectors": vectors}
    (with_vectors,), _ = read(write("one.ndjson", json.dumps(line)))
    (without,), _ = read(write("one.ndjson", '{"kind":"note","ref":"a"}'))
    assert json.loads(with_vectors.line(5))["vectors"] == vectors
    assert with_vectors.content_hash() == without.content_hash()


def test_half_an_emoji_as_javascript_writes_it_is_read(write: Write) -> None:
    documents, skipped = read(write("one.ndjson", r'{"kind":"note","ref":"a","title":"x\ud83d"}'))
    assert (documents[0].title, skipped) == ("x?", [])


def test_a_deletion_takes_back_what_earlier_lines_said(write: Write) -> None:
    lines = [
        {"kind": "note", "ref": "a", "title": "1"},
        {"kind": "note", "ref": "b"},
        {"op": "delete", "kind": "note", "ref": "a"},
        {"op": "delete", "kind": "note", "ref": "b"},
        {"kind": "note", "ref": "a", "title": "2"},
    ]
    documents, _ = read(write("one.ndjson", "\n".join(map(json.dumps, lines))))
    assert [(document.ref, document.title) for document in documents] == [("a", "2")]


def test_gzip_is_read_and_a_torn_one_keeps_what_came_before(write: Write) -> None:
    text = b"".join(
        b'{"kind":"note","ref":"n%d","note":"%s"}\n' % (n, str(n * 7_919).encode() * 50)
        for n in range(2_000)
    )
    whole = gzip.compress(text)
    assert len(read(write("one.ndjson.gz", whole))[0]) == 2_000
    documents, skipped = read(write("one.ndjson.gz", whole[: len(whole) // 2]))
    assert 0 < len(documents) < 2_000
    assert [each.where for each in skipped] == [""]


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read"):
        list(Ndjson(tmp_path / "none", Settings()).units())


def test_an_untouched_file_has_a_signature_and_a_fresh_one_none(write: Write) -> None:
    def signature(ago_s: float, content: str) -> str | None:
        source = Ndjson(write("one.ndjson", content, ago_s=ago_s), Settings())
        unit = next(source.units())
        assert isinstance(unit, Unit)
        return unit.signature

    assert signature(0, "a") is None
    assert signature(100, "a") != signature(50, "a")
    assert signature(100, "a") != signature(100, "ab")
