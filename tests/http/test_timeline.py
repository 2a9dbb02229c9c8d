from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpe_openai
import pytest

from service.http.openapi import openapi
from service.index.document import Document
from tests.http.real import notes, real_world


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Any]:
    with real_world(tmp_path, timeline_rows=20) as world:
        key = world.tenant("acme", notes(40))
        yield lambda **more: world.post(key, "/v1/timeline", **more)


def test_the_answer_has_what_the_document_promises(asked: Any) -> None:
    told = asked(kind="note", ref="note-7", before=2, after=1).json()
    schema = openapi()["components"]["schemas"]["Timeline"]
    assert set(told) == set(schema["properties"])
    assert set(told["here"]) == set(schema["properties"]["after"]["items"]["properties"])
    assert [each["ref"] for each in told["before"]] == ["note-5", "note-6"]
    assert told["here"]["updated_at"] == 1_780_025_200_000
    assert [each["ref"] for each in told["after"]] == ["note-8"]
    assert told["left_out"] == 0
    assert told["tokens"]["full"] == 4 * told["here"]["tokens"]
    assert told["tokens"]["saved_percent"] > 80


def test_without_room_the_farthest_are_left_out_and_counted(asked: Any) -> None:
    whole = asked(kind="note", ref="note-20", before=10, after=10).json()
    assert len(whole["before"]) == len(whole["after"]) == 10
    count = bpe_openai.get_encoding("cl100k_base").encode
    for accept in ("application/json", "text/markdown"):
        answer = asked(
            kind="note", ref="note-20", before=10, after=10, limit_tokens=500, accept=accept
        )
        assert len(count(answer.text)) <= 500
        assert "note-20" in answer.text
    told = asked(kind="note", ref="note-20", before=10, after=10, limit_tokens=700).json()
    shown = len(told["before"]) + len(told["after"])
    assert 0 < shown < 20
    assert told["left_out"] == 20 - shown
    assert abs(len(told["before"]) - len(told["after"])) <= 1
    assert told["before"][-1]["ref"] == "note-19"
    assert told["after"][0]["ref"] == "note-21"


def test_the_bound_holds_when_there_is_no_room_for_the_document_itself(tmp_path: Path) -> None:
    long = Document(kind="note", ref="7" * 500, title="t", updated_at=1)
    with real_world(tmp_path) as world:
        key = world.tenant("acme", [long])
        asked: dict[str, Any] = {"kind": "note", "ref": "7" * 500, "limit_tokens": 400}
        told = world.post(key, "/v1/timeline", **asked).json()
        assert (told["here"], told["left_out"]) == (None, 1)
        answer = world.post(key, "/v1/timeline", **asked, accept="text/markdown")
        assert "1 more left out for want of room." in answer.text


def test_refusals(asked: Any) -> None:
    assert asked(kind="note", ref="nothing").json()["type"] == "/v1/problems/not-found"
    for wrong in (
        {"kind": "note"},
        {"kind": "note", "ref": "note-1", "before": 21},
        {"kind": "note", "ref": "note-1", "within": "tenant"},
        {"kind": "note", "ref": "note-1", "limit_tokens": 10},
        {"kind": "note", "ref": "note-1", "around": 3},
    ):
        assert asked(**wrong).status_code == 400
