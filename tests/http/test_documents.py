import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from service.index.document import Document


def lines(*rows: Any) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def row(ref: str, **more: Any) -> dict[str, Any]:
    return {"kind": "note", "ref": ref, **more}


def test_a_batch_tells_what_became_of_each_line(world: Any) -> None:
    answer = world.batch(
        lines(
            row("n1", title="again"),
            row("n2", title="new"),
            {"op": "delete", "kind": "task", "ref": "t1"},
            {"op": "delete", "kind": "task", "ref": "t9"},
        )
    )
    assert answer.status_code == 200
    assert answer.json() == {
        "version": 2,
        "replayed": False,
        "counts": {"updated": 1, "created": 1, "deleted": 1, "absent": 1},
        "results": [
            {"line": 1, "kind": "note", "ref": "n1", "result": "updated"},
            {"line": 2, "kind": "note", "ref": "n2", "result": "created"},
            {"line": 3, "kind": "task", "ref": "t1", "result": "deleted"},
            {"line": 4, "kind": "task", "ref": "t9", "result": "absent"},
        ],
    }
    assert set(world.found()) == {("note", "n1"), ("note", "n2")}


def test_one_bad_line_of_an_atomic_batch_keeps_all_of_it_out(world: Any) -> None:
    before = dict(world.found())
    answer = world.batch(lines(row("n2")) + b"{oops\n" + lines({"kind": "note"}))
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "/v1/problems/invalid-batch"
    assert problem["kept"] is False
    assert problem["refused"] == 2
    assert [line["line"] for line in problem["lines"]] == [2, 3]
    assert all(line["error"] for line in problem["lines"])
    assert world.found() == before


def test_a_batch_that_is_not_atomic_keeps_the_good_lines_and_says_which(world: Any) -> None:
    body = lines(row("n2")) + b"\xff\n\n" + lines(row("n3"))
    answer = world.batch(body, "/v1/documents:batch?atomic=false")
    assert answer.status_code == 200
    result = answer.json()
    assert result["counts"] == {"created": 2, "refused": 1}
    assert [(line["line"], line["result"], line["kept"]) for line in result["results"]] == [
        (1, "created", True),
        (2, "refused", False),
        (4, "created", True),
    ]


def test_the_list_of_bad_lines_is_bounded_and_their_number_exact(world: Any) -> None:
    problem = world.batch(b"[]\n" * 450).json()
    assert problem["refused"] == 450
    assert len(problem["lines"]) == 100


def test_a_line_over_its_limit_is_refused_by_number(make_world: Callable[..., Any]) -> None:
    world = make_world(line_bytes=100)
    body = lines(row("a"), row("b", note="x" * 200), row("c"))
    problem = world.batch(body).json()
    assert problem["lines"] == [
        {
            "line": 2,
            "error": "the line is longer than 100 bytes",
            "hint": "Shorten its texts, or send them as several documents.",
        }
    ]
    kept = world.batch(body, "/v1/documents:batch?atomic=0").json()
    assert kept["counts"] == {"created": 2, "refused": 1}


def test_a_body_over_its_limit_names_the_line_reached_and_keeps_nothing(
    make_world: Callable[..., Any],
) -> None:
    world = make_world(request_bytes=1_000)
    body = lines(*(row(f"r{number:03}", title="x" * 50) for number in range(100)))
    answer = world.batch(body, "/v1/documents:batch?atomic=false")
    assert answer.status_code == 413
    assert answer.json()["limit"] == "request_bytes"
    assert f"line {1_000 // (len(body) // 100) + 1} was reached" in answer.json()["detail"]
    assert world.found() == {}


def test_too_many_lines_are_refused_even_blank_ones(make_world: Callable[..., Any]) -> None:
    world = make_world(batch_lines=3)
    assert world.batch(lines(row("a"), row("b"), row("c"))).status_code == 200
    for body in (lines(*(row(name) for name in "defg")), b"\n" * 4, b"\n\n\n{}"):
        answer = world.batch(body)
        assert answer.status_code == 413
        assert answer.json()["limit"] == "batch_lines"
    assert len(world.found()) == 3


def test_an_empty_batch_is_a_batch(world: Any) -> None:
    for body in (b"", b"\n", b" \r\n\n"):
        answer = world.batch(body)
        assert answer.status_code == 200
        assert answer.json()["results"] == []


def test_the_last_line_needs_no_newline(world: Any) -> None:
    assert world.batch(lines(row("n8"))[:-1]).json()["counts"] == {"created": 1}


def test_the_same_key_and_body_get_the_first_answer_again(world: Any) -> None:
    first = world.batch(lines(row("n5")), **{"idempotency-key": "k-1"})
    again = world.batch(lines(row("n5")), **{"idempotency-key": "k-1"})
    assert again.json() == {**first.json(), "replayed": True}
    other = world.batch(lines(row("n6")), **{"idempotency-key": "k-1"})
    assert other.status_code == 409
    assert other.json()["type"] == "/v1/problems/conflict"
    otherwise = world.batch(
        lines(row("n5")), "/v1/documents:batch?atomic=false", **{"idempotency-key": "k-1"}
    )
    assert otherwise.status_code == 409


@pytest.mark.parametrize("key", ["", "two words", "k" * 256, "é"])
def test_an_unusable_idempotency_key_is_refused(world: Any, key: str) -> None:
    answer = world.writer.post(
        "/v1/documents:batch",
        content=lines(row("n5")),
        headers=[
            ("authorization", f"Bearer {world.keys['sync']}"),
            ("idempotency-key", key.encode("latin-1")),
        ],
    )
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json()["detail"]


def test_durability_is_handed_on(world: Any) -> None:
    world.batch(lines(row("a")), "/v1/documents:batch?durability=replicated")
    world.batch(lines(row("b")))
    assert world.files.durabilities == ["replicated", "local"]
    assert world.batch(b"", "/v1/documents:batch?durability=maybe").status_code == 400
    assert world.batch(b"", "/v1/documents:batch?colour=red").status_code == 400


def test_a_compressed_body_is_refused(world: Any) -> None:
    assert world.batch(b"\x1f\x8b", **{"content-encoding": "gzip"}).status_code == 415


def test_a_reader_sends_writes_to_the_writer(world: Any) -> None:
    answer = world.reader.post(
        "/v1/documents:batch", content=lines(row("a")), headers=world.headers("sync")
    )
    assert answer.status_code == 421
    assert answer.json()["type"] == "/v1/problems/not-the-writer"
    assert "writer" in answer.json()["hint"]


def get(world: Any, *refs: str, **more: Any) -> Any:
    named = [{"kind": "note", "ref": ref} for ref in refs]
    return world.reader.post(
        "/v1/documents:get", json={"refs": named, **more}, headers=world.headers("search")
    )


def test_documents_come_back_whole_and_missing_ones_are_named(world: Any) -> None:
    texts = dict.fromkeys(("title", "summary", "note", "meta"), "T")
    whole = Document(kind="note", ref="full", title="T", summary="T", note="T", meta="T")
    world.put(dataclasses.replace(whole, identifiers=("A-1",)))
    body = get(world, "full", "gone", "full").json()
    assert body["documents"] == [
        {
            "kind": "note",
            "ref": "full",
            **texts,
            "updated_at": 0,
            "identifiers": ["A-1"],
        }
    ]
    assert body["missing"] == [{"kind": "note", "ref": "gone"}]
    assert body["cut"] == body["left_out"] == []
    assert body["index"]["version"] == 2


@pytest.mark.parametrize("text", ["x" * 5_000, "文" * 5_000, "\n" * 5_000, "\x01😀" * 2_500])
def test_an_answer_over_its_bytes_is_cut_and_says_so(world: Any, text: str) -> None:
    world.put(
        *(Document(kind="note", ref=f"big{number}", title="t", note=text) for number in range(3))
    )
    answer = get(world, "big0", "big1", "big2", max_bytes=8_000)
    body = answer.json()
    texts = sum(len(json.dumps(d["note"], ensure_ascii=False)) for d in body["documents"])
    assert texts <= 8_000
    for each in body["cut"]:
        document = next(d for d in body["documents"] if d["ref"] == each["ref"])
        assert text.startswith(document["note"])
        assert (each["chars"], each["of_chars"]) == (len(document["note"]), 5_000)
        assert each["field"] == "note"
    whole = {d["ref"] for d in body["documents"]} - {each["ref"] for each in body["cut"]}
    seen = whole | {e["ref"] for e in body["cut"]} | {e["ref"] for e in body["left_out"]}
    assert seen == {"big0", "big1", "big2"}
    assert body["cut"] or body["left_out"]
    assert all(document["title"] == "t" for document in body["documents"])
    assert len(answer.content) < 9_000


def test_get_needs_names_and_not_too_many(world: Any) -> None:
    assert get(world).status_code == 400
    assert get(world, *(f"r{number}" for number in range(101))).status_code == 400
    assert get(world, "a", max_bytes=2**40).status_code == 400
    answer = world.reader.post(
        "/v1/documents:get",
        json={"refs": [{"kind": "note", "ref": "n1", "title": "x"}]},
        headers=world.headers("search"),
    )
    assert "unknown field `refs[0].title`" in answer.json()["detail"]
