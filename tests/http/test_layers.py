"""The compact layer and Markdown of a search, on the demo memory and on Chinese documents."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import bpe_openai
import orjson
import pytest

from golden.cases import DEMO_CORPUS
from golden.judged import documents
from service.http.layers import wants_markdown
from service.http.openapi import openapi
from service.index.document import Document, parse_line
from service.settings import Settings
from tests.http.real import notes, real_world

ENCODINGS = ["o200k_base", "cl100k_base"]
QUERIES = ["gateway", "event operator", "how are retries set", "release notes", "test", "error"]
CHINESE = [
    "网关在失败后自动重试三次，每次等待的时间更长，最后返回错误。",
    "本季度合同续签由法务负责，请在周五之前提交给财务部门审核。",
    "数据库迁移脚本需要在低峰时段执行，并且提前通知所有相关团队。",
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    settings, now_ms = Settings(), 1_798_761_600_000
    demo = [
        parse_line(line, number=n, limits=settings, now_ms=now_ms).document  # type: ignore[union-attr]
        for n, line in enumerate(documents(DEMO_CORPUS))
    ]
    chinese = [
        Document(kind="note", ref=f"zh-{n}", title=text[:8], note=text * 30, updated_at=n)
        for n, text in enumerate(CHINESE * 5)
    ]
    prose = [each.note for each in demo if each.note.isascii()]
    english = [
        Document(kind="note", ref=f"en-{n}", title=demo[n].title, note="\n".join(prose[n : n + 15]))
        for n in range(40)
    ]
    with real_world(tmp_path_factory.mktemp("layers")) as real:
        yield SimpleNamespace(
            real=real,
            demo=real.tenant("demo", demo),
            english=real.tenant("english", english),
            chinese=real.tenant("chinese", chinese),
        )


def ask(world: Any, key: str, q: str, **more: Any) -> Any:
    return world.real.post(key, "/v1/search", q=q, **more)


def whole(world: Any, key: str, refs: list[dict[str, str]]) -> str:
    told = world.real.post(key, "/v1/documents:get", refs=refs).json()
    fields = ("title", "summary", "meta", "note")
    return "\n".join("\n".join(each[name] for name in fields) for each in told["documents"])


def test_the_answer_has_what_the_document_promises(world: Any) -> None:
    schemas = openapi()["components"]["schemas"]
    told = ask(world, world.demo, "gateway", layer="compact").json()
    assert set(told) == set(schemas["CompactResult"]["properties"])
    assert all(len(row) == len(told["columns"]) for row in told["hits"])
    components = told["columns"].index("components")
    assert all(len(row[components]) == len(told["components"]) for row in told["hits"])
    told = ask(world, world.demo, "gateway", limit_tokens=5_000).json()
    assert set(told) == set(schemas["BoundedResult"]["properties"])


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("accept", ["application/json", "text/markdown"])
def test_ten_rows_cost_at_most_600_tokens(world: Any, encoding: str, accept: str) -> None:
    count = bpe_openai.get_encoding(encoding).encode
    for key, queries in ((world.demo, QUERIES), (world.chinese, ["合同", "数据库 迁移", "网关"])):
        for q in queries:
            answer = ask(world, key, q, layer="compact", accept=accept)
            assert len(count(answer.text)) <= 600


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_what_is_saved_is_as_said_in_english_and_in_chinese(world: Any, encoding: str) -> None:
    count = bpe_openai.get_encoding(encoding).encode
    for key, q in ((world.english, "gateway"), (world.chinese, "合同 续签")):
        answer = ask(world, key, q, layer="compact")
        told = answer.json()
        refs = [dict(zip(("kind", "ref"), row[:2], strict=True)) for row in told["hits"]]
        shown, full = len(count(answer.text)), len(count(whole(world, key, refs)))
        measured = 100 * (1 - shown / full)
        assert measured > 50
        assert told["tokens"]["saved_percent"] == pytest.approx(measured, rel=0.1)
        error = told["tokens"]["error_percent"] / 100
        assert told["tokens"]["shown"] == pytest.approx(shown, rel=error)


def test_a_page_that_has_no_room_goes_on_where_it_was_cut(world: Any) -> None:
    everything = ask(world, world.demo, "gateway", limit=50).json()["hits"]
    wanted = [(hit["kind"], hit["ref"]) for hit in everything]
    for layer in ("compact", "hits"):
        seen: list[tuple[str, str]] = []
        cursor: str | None = None
        for _ in range(60):
            more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
            told = ask(
                world, world.demo, "gateway", limit=50, layer=layer, limit_tokens=900, **more
            ).json()
            rows = told["hits"]
            seen += [(r[0], r[1]) if layer == "compact" else (r["kind"], r["ref"]) for r in rows]
            assert rows
            cursor = told["cursor"]
            if cursor is None:
                break
        assert seen == wanted
        assert told["left_out"] == 0


def test_an_answer_without_room_for_a_single_row_says_so(world: Any) -> None:
    key = world.real.tenant("big", [Document(kind="note", ref="a", title="word " * 800)])
    told = ask(world, key, "word", limit_tokens=400).json()
    assert (told["hits"], told["left_out"], told["cursor"]) == ([], 1, None)
    assert ask(world, key, "word", layer="compact", limit_tokens=400).json()["left_out"] == 0


def test_markdown_says_the_same_in_fewer_tokens(world: Any) -> None:
    plain = ask(world, world.demo, "gateway", layer="compact")
    answer = ask(world, world.demo, "gateway", layer="compact", accept="text/markdown")
    assert answer.headers["content-type"] == "text/markdown; charset=utf-8"
    assert answer.headers["memlane-semantic"] == "disabled; reason=no_sidecar"
    refs = [line.split("`")[1] for line in answer.text.splitlines()[1:11]]
    assert refs == [row[1] for row in plain.json()["hits"]]
    whole_hits = ask(world, world.demo, "gateway", accept="text/markdown").text
    assert refs == [line.split("`")[1] for line in whole_hits.splitlines() if line[:1].isdigit()]
    index = plain.json()["index"]
    assert f"version {index['version']}, {index['age_ms']} ms old" in answer.text


@pytest.mark.parametrize(
    ("accept", "markdown"),
    [
        ("text/markdown", True),
        ("text/markdown, application/json", True),
        ("text/markdown;q=0.5, application/json", False),
        ("application/json;q=0.5, text/markdown", True),
        ("TEXT/Markdown; Q=1", True),
        ("text/markdown;q=0", False),
        ("text/markdown;q=no", False),
        ("*/*", False),
        ("", False),
    ],
)
def test_who_wants_markdown(accept: str, markdown: bool) -> None:
    class Headers:
        def getlist(self, _: str) -> list[str]:
            return [accept]

    request: Any = SimpleNamespace(headers=Headers())
    assert wants_markdown(request) is markdown


def test_refusals(world: Any) -> None:
    for wrong in (
        {"layer": "full"},
        {"limit_tokens": 399},
        {"layer": "compact", "explain": True},
        {"limit_tokens": 1_000, "explain": True},
    ):
        answer = ask(world, world.demo, "gateway", **wrong)
        assert answer.status_code == 400
        assert orjson.loads(answer.content)["type"] == "/v1/problems/invalid-request"


def test_a_search_by_parameters_has_layers_too(world: Any) -> None:
    answer = world.real.client.get(
        "/v1/search?q=gateway&layer=compact&limit_tokens=500",
        headers={"authorization": f"Bearer {world.demo}"},
    )
    assert answer.json()["columns"][:2] == ["kind", "ref"]


def test_an_empty_page(world: Any) -> None:
    key = world.real.tenant("empty", notes(0))
    told = ask(world, key, "gateway", layer="compact").json()
    assert (told["hits"], told["components"], told["cursor"]) == ([], [], None)
    assert "0 hits" in ask(world, key, "x", layer="compact", accept="text/markdown").text
