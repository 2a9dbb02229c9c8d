from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bpe_openai
import pytest

from service.index.document import Document
from tests.http.real import notes, real_world

CHINESE = "网关在失败后自动重试三次，每次等待的时间更长，最后返回错误。"


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Any]:
    with real_world(tmp_path) as world:
        long = Document(kind="note", ref="zh", title="网关", note=CHINESE * 500, updated_at=1)
        key = world.tenant("acme", [*notes(5), long])
        yield lambda refs, **more: world.post(
            key,
            "/v1/documents:get",
            refs=[{"kind": "note", "ref": ref} for ref in refs],
            **more,
        )


@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
@pytest.mark.parametrize("accept", ["application/json", "text/markdown"])
@pytest.mark.parametrize("refs", [["zh", "note-1"], ["note-1", "note-2", "zh"]])
def test_an_answer_never_has_more_tokens_than_asked_for(
    asked: Any, encoding: str, accept: str, refs: list[str]
) -> None:
    count = bpe_openai.get_encoding(encoding).encode
    for limit in (400, 1_000, 5_000):
        text = asked(refs, limit_tokens=limit, accept=accept).text
        assert limit / 4 < len(count(text)) <= limit


def test_what_was_cut_and_left_out_is_said_with_what_it_would_have_cost(asked: Any) -> None:
    told = asked(["note-1", "zh", "note-2", "gone"], limit_tokens=2_000).json()
    (cut,) = told["cut"]
    assert (cut["ref"], cut["field"], cut["of_chars"]) == ("zh", "note", len(CHINESE) * 500)
    assert told["left_out"] == [{"kind": "note", "ref": ref} for ref in ("note-2", "gone")]
    tokens = told["tokens"]
    assert tokens["full"] > 10_000
    assert tokens["saved_percent"] == round(100 * (1 - tokens["shown"] / tokens["full"]))


def test_names_of_what_is_not_there_are_bounded_too(asked: Any) -> None:
    gone = [f"{n:0100}" for n in range(60)]
    count = bpe_openai.get_encoding("cl100k_base").encode
    for accept in ("application/json", "text/markdown"):
        assert len(count(asked(gone, limit_tokens=1_000, accept=accept).text)) <= 1_000
    told = asked(gone, limit_tokens=1_000).json()
    assert len(told["missing"]) + told["unnamed"] == 60
    assert told["unnamed"] > 40
    assert asked(gone).json()["unnamed"] == 0


def test_markdown_has_the_texts_and_nothing_of_json(asked: Any) -> None:
    answer = asked(["note-1", "gone"], accept="text/markdown")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert answer.headers["vary"] == "Accept"
    lines = answer.text.splitlines()
    assert lines[0] == "# note `note-1` The gateway retry policy of service 1"
    assert lines[1] == "updated 2026-05-28T21:26"
    assert "Missing: note `gone`" in lines
    assert "{" not in answer.text


def test_whole_documents_save_nothing(asked: Any) -> None:
    told = asked(["note-1", "note-2"]).json()
    assert (told["cut"], told["left_out"]) == ([], [])
    assert told["tokens"]["saved_percent"] == 0
    assert told["tokens"]["shown"] >= told["tokens"]["full"]
