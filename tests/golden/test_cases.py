"""The golden cases are sound data, and each assertion tells what came instead."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from golden import cases, judged
from golden.answers import Answer, Found
from golden.cases import judge, parse
from service.errors import SetupError

FAMILIES = {
    "camel-case",
    "cjk",
    "compounds",
    "filters",
    "forms",
    "grammar",
    "identifiers",
    "misspelt",
    "mixed-language",
    "prefixes",
    "questions",
    "ranking",
    "stub-titles",
    "transcripts",
    "versions",
}


@pytest.fixture(scope="module")
def loaded() -> list[cases.Case]:
    return cases.load()


def test_there_are_enough_cases_of_every_family(loaded: list[cases.Case]) -> None:
    assert len(loaded) >= 80
    assert {case.family for case in loaded} == FAMILIES


def test_every_case_has_a_reason_and_an_origin(loaded: list[cases.Case]) -> None:
    for case in loaded:
        assert case.reason.endswith("."), case.id
        assert case.origin, case.id
        assert case.query.strip(), case.id


def test_every_document_named_is_in_the_demo_memory(loaded: list[cases.Case]) -> None:
    demo = {f"{row['kind']}:{row['ref']}" for row in map(orjson.loads, demo_lines())}
    named = {name for case in loaded for name in case.documents()}
    assert named - demo == set()


def test_no_case_contradicts_itself(loaded: list[cases.Case]) -> None:
    for case in loaded:
        wanted = {*case.must_include, *case.must_include_any, case.top1}
        assert not wanted & set(case.must_exclude), case.id
        assert len(case.must_include) <= case.at, case.id


def demo_lines() -> list[bytes]:
    return list(judged.lines(cases.DEMO_CORPUS))


def answer(*names: str, **figures: Any) -> Answer:
    hits = [
        Found(kind, ref, components={"coverage": 0.5})
        for kind, ref in (name.split(":") for name in names)
    ]
    return Answer(hits, **figures)


def broken(row: dict[str, Any], given: Answer) -> list[str]:
    case = parse({"id": "x", "query": "q", "reason": "r.", "origin": "o", **row}, family="f")
    return [f"{failure.assertion} / {failure.came_instead}" for failure in judge(case, given)]


GIVEN = answer("task:a", "note:b", "note:c", wall_ms=12.0, semantic_state="ok")


@pytest.mark.parametrize(
    "row",
    [
        {"must_include": ["note:b", "task:a"]},
        {"must_include_any": ["note:z", "note:c"]},
        {"must_exclude": ["note:z"]},
        {"must_exclude": ["note:c"], "at": 2},
        {"top1": "task:a", "top1_kind": "task"},
        {"must_rank_above": [["task:a", "note:c"], ["note:b", "note:absent"]]},
        {"must_include": ["note:b"], "min_coverage": 0.5},
        {"max_latency_ms": 12.0},
        {"semantic_state": ["ok", "cold"]},
    ],
)
def test_what_holds_is_silent(row: dict[str, Any]) -> None:
    assert broken(row, GIVEN) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (
            {"must_include": ["note:c"], "at": 2},
            "must_include note:c / note:c at 3; first: task:a, note:b, note:c",
        ),
        (
            {"must_include_any": ["note:y", "note:z"]},
            "must_include_any note:y or note:z / first: task:a, note:b, note:c",
        ),
        ({"must_exclude": ["note:b"]}, "must_exclude note:b / note:b at 2"),
        ({"top1": "note:b"}, "top1 note:b / note:b at 2; first: task:a, note:b, note:c"),
        ({"top1_kind": "note"}, "top1_kind note / first: task:a, note:b, note:c"),
        (
            {"must_rank_above": [["note:c", "task:a"]]},
            "must_rank_above note:c > task:a / note:c at 3, task:a at 1",
        ),
        (
            {"must_rank_above": [["note:z", "note:y"]]},
            "must_rank_above note:z > note:y / note:z not found, note:y not found",
        ),
        ({"min_coverage": 0.6}, "min_coverage 0.6 / coverage 0.500"),
        ({"max_latency_ms": 10}, "max_latency_ms 10 / 12.0 ms"),
        ({"semantic_state": ["cold"]}, "semantic_state cold / ok"),
    ],
)
def test_what_breaks_is_told_with_what_came_instead(row: dict[str, Any], said: str) -> None:
    assert broken(row, GIVEN) == [said]


def test_no_hits_break_what_wants_some_and_nothing_else() -> None:
    assert broken({"must_exclude": ["note:a"], "max_latency_ms": 5}, answer()) == []
    assert broken({"top1": "note:a"}, answer()) == [
        "top1 note:a / note:a not found; first: nothing"
    ]
    assert broken({"min_coverage": 0.1}, answer()) == ["min_coverage 0.1 / coverage 0.000"]


def test_a_backend_without_a_semantic_lane_is_not_asked_about_it() -> None:
    assert broken({"semantic_state": ["ok"]}, answer("task:a")) == []


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"must_inclued": ["a:b"]}, "unknown fields"),
        ({}, "asserts nothing"),
    ],
)
def test_a_misspelt_case_is_refused(row: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError, match=said):
        broken(row, GIVEN)


def test_a_case_without_a_reason_is_refused() -> None:
    with pytest.raises(SetupError, match="reason"):
        parse({"id": "x", "query": "q", "origin": "o", "top1": "a:b"}, family="f")


def test_the_date_filter_is_utc_midnight() -> None:
    row = {"id": "x", "query": "q", "reason": "r.", "origin": "o", "top1": "a:b"}
    case = parse({**row, "updated_after": "2026-06-01"}, family="f")
    assert case.updated_after_ms == 1_780_272_000_000


def test_a_report_counts_cases_not_assertions() -> None:
    good, bad = (
        parse({"id": i, "query": "q", "reason": "r.", "origin": "o", "top1": "a:b"}, family="f")
        for i in ("good", "bad")
    )
    failures = [cases.Failure(bad, "top1 a:b", "x"), cases.Failure(bad, "top1_kind a", "x")]
    found = cases.report([good, bad], failures)
    assert (found["n"], found["passed"], found["families"]) == (2, 1, {"f": {"n": 2, "passed": 1}})
    assert found["failures"][0]["reason"] == "r."
