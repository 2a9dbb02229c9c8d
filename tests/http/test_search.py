import threading
from collections.abc import Callable
from typing import Any

import pytest

from service.errors import IndexCorrupt, InvalidCursor


def test_an_answer_holds_hits_freshness_state_and_timing(world: Any) -> None:
    answer = world.ask(q="gateway", limit=5)
    assert answer.status_code == 200
    body = answer.json()
    assert [hit["ref"] for hit in body["hits"]] == ["n1", "t1"]
    assert body["hits"][0] == {
        "kind": "note",
        "ref": "n1",
        "title": "Rotate the gateway keys",
        "score": 0.5,
        "components": {"strict": 0.5},
        "snippet": "Rotate the gateway keys",
        "marks": [[0, 7]],
        "updated_at": body["hits"][0]["updated_at"],
        "tokens": 3,
    }
    assert body["index"] == {
        "version": 1,
        "as_of": "2026-09-21T14:13:20.123Z",
        "age_ms": 250,
        "docs": 2,
        "temperature": "hot",
    }
    assert body["semantic"] == {
        "state": "disabled",
        "reason": "no_sidecar",
        "model": None,
        "coverage": None,
    }
    assert body["took_ms"]["lanes"] == 1.5
    assert body["took_ms"]["total"] > 0
    assert "explain" not in body
    assert answer.headers["memlane-semantic"] == "disabled; reason=no_sidecar"
    assert "lanes;dur=1.50" in answer.headers["server-timing"]
    assert len(answer.headers["x-request-id"]) == 32


def test_get_asks_the_same_with_parameters(world: Any) -> None:
    query = "q=gate%77ay&kinds=task&kinds=memory&limit=3&explain=true&updated_after=2020-01-01"
    answer = world.reader.get(f"/v1/search?{query}", headers=world.headers("search"))
    assert answer.status_code == 200
    assert [hit["ref"] for hit in answer.json()["hits"]] == ["t1"]
    assert answer.json()["explain"] == {"lanes": {}}


def test_every_field_reaches_the_engine(world: Any) -> None:
    asked = []

    def spy(reader: Any, request: Any) -> Any:
        asked.append(request)
        return world_search(reader, request)

    world_search, world.search = world.search, spy
    world.ask(
        q="x",
        limit=7,
        cursor="abc",
        kinds=["note"],
        refs=["n1", "n2"],
        updated_after="2026-01-01",
        updated_before=1_800_000_000_000,
        explain=True,
        semantic={"deadline_ms": 100},
    )
    (request,) = asked
    assert request.q == "x"
    assert request.limit == 7
    assert request.cursor == "abc"
    assert request.kinds == ("note",)
    assert request.refs == ("n1", "n2")
    assert request.updated_after_ms == 1_767_225_600_000
    assert request.updated_before_ms == 1_800_000_000_000
    assert request.explain


@pytest.mark.parametrize(
    ("given", "ms"),
    [
        (5, 5),
        ("1970-01-01", 0),
        ("2026-01-31T12:00:00Z", 1_769_860_800_000),
        ("2026-01-31T12:00:00+08:00", 1_769_832_000_000),
    ],
)
def test_times_are_read_as_ms_dates_or_moments(world: Any, given: Any, ms: int) -> None:
    asked = []
    search, world.search = world.search, lambda r, q: asked.append(q) or search(r, q)  # type: ignore[func-returns-value]
    assert world.ask(q="x", updated_after=given).status_code == 200
    assert asked[0].updated_after_ms == ms


def test_each_answered_search_counts_once_and_a_refused_one_does_not(world: Any) -> None:
    for _ in range(3):
        world.ask(q="gateway")
    world.writer.post("/v1/search", json={"q": "x"}, headers=world.headers("search"))
    world.ask(q="gateway", min_version=99)
    world.ask(q=5)
    world.search = _raising(IndexCorrupt("the file is damaged"))
    assert world.ask(q="gateway").status_code == 503
    assert world.counted() == {
        ("reader", "disabled", "no_sidecar"): 3,
        ("writer", "disabled", "no_sidecar"): 1,
    }


def _raising(error: Exception) -> Callable[..., Any]:
    def search(*_: Any) -> Any:
        raise error

    return search


def test_a_replica_that_catches_up_in_time_is_waited_for(world: Any) -> None:
    world.files.catch_up = world.put
    answer = world.ask(q="gateway", min_version=2)
    assert answer.status_code == 200
    assert answer.json()["index"]["version"] == 2


def test_a_replica_that_stays_behind_says_what_it_has(make_world: Callable[..., Any]) -> None:
    world = make_world(search_deadline_ms=50)
    world.put()
    answer = world.ask(q="gateway", min_version=9)
    assert answer.status_code == 409
    problem = answer.json()
    assert problem["type"] == "/v1/problems/replica-behind"
    assert (problem["version"], problem["age_ms"]) == (1, 250)
    assert world.ask(q="gateway", max_staleness_ms=249).status_code == 409
    assert world.ask(q="gateway", max_staleness_ms=250).status_code == 200


def test_those_who_wait_for_a_replica_do_not_hold_up_those_who_need_not(
    make_world: Callable[..., Any],
) -> None:
    world = make_world(search_threads=1)
    waiting, go_on = threading.Event(), threading.Event()

    def catch_up() -> None:
        waiting.set()
        go_on.wait(20)
        world.put()

    world.files.catch_up = catch_up
    answers = []
    thread = threading.Thread(target=lambda: answers.append(world.ask(q="x", min_version=1)))
    thread.start()
    assert waiting.wait(20)
    assert world.ask(q="x").status_code == 200
    go_on.set()
    thread.join()
    assert answers[0].status_code == 200
    assert answers[0].json()["index"]["version"] == 1


def test_more_than_may_wait_is_refused_at_once_with_when_to_retry(
    make_world: Callable[..., Any],
) -> None:
    world = make_world(search_threads=1, search_queue=1)
    running, go_on = threading.Semaphore(0), threading.Event()
    search = world.search

    def slow(reader: Any, request: Any) -> Any:
        running.release()
        go_on.wait(20)
        return search(reader, request)

    world.search = slow
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(world.ask(q="x"))) for _ in range(4)]
    threads[0].start()
    assert running.acquire(timeout=20)
    for thread in threads[1:]:
        thread.start()
    deadline = threading.Event()
    while len(answers) < 2:  # one runs, one waits, the other two are refused
        assert not deadline.wait(0.01)
    go_on.set()
    for thread in threads:
        thread.join()
    statuses = sorted(answer.status_code for answer in answers)
    assert statuses == [200, 200, 503, 503]
    refused = next(answer for answer in answers if answer.status_code == 503)
    assert refused.headers["retry-after"] == "1"
    assert refused.json()["retry_after_s"] == 1


def test_a_search_that_waited_too_long_for_its_turn_is_refused(
    make_world: Callable[..., Any],
) -> None:
    world = make_world(search_threads=1, search_deadline_ms=30)
    running, go_on = threading.Event(), threading.Event()
    search = world.search

    def slow(reader: Any, request: Any) -> Any:
        running.set()
        go_on.wait(20)
        return search(reader, request)

    world.search = slow
    thread = threading.Thread(target=lambda: world.ask(q="x"))
    thread.start()
    assert running.wait(20)
    answer = world.ask(q="x")
    go_on.set()
    thread.join()
    assert answer.status_code == 503
    assert "waited 0.03 s" in answer.json()["detail"]


def test_a_bad_cursor_is_the_callers_mistake(world: Any) -> None:
    world.search = _raising(InvalidCursor("the cursor belongs to another query"))
    answer = world.ask(q="x", cursor="zzz")
    assert answer.status_code == 400
    assert answer.json()["type"] == "/v1/problems/invalid-cursor"


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "`q` is missing"),
        ({"q": None}, "`q` is missing"),
        ({"q": 5}, "`q` is not a string"),
        ({"q": "x", "limit": 0}, "`limit` is not between 1 and 100"),
        ({"q": "x", "limit": 101}, "`limit` is not between 1 and 100"),
        ({"q": "x", "limit": True}, "`limit` is not a whole number"),
        ({"q": "x", "limit": 1.0}, "`limit` is not a whole number"),
        ({"q": "x", "limit": "1"}, "`limit` is not a whole number"),
        ({"q": "x", "kinds": "note"}, "`kinds` is not a list"),
        ({"q": "x", "kinds": ["note", 3]}, "`kinds` holds something that is not a string"),
        ({"q": "x", "kinds": ["n"] * 33}, "`kinds` holds more than 32"),
        ({"q": "x", "colour": 1}, "unknown field `colour`"),
        ({"q": "x", "semantic": {"model": "m"}}, "unknown field `semantic.model`"),
        ({"q": "x", "semantic": []}, "`semantic` is not an object"),
        ({"q": "x", "updated_after": "yesterday"}, "`updated_after` is not a time"),
        ({"q": "x", "updated_after": "0001-01-01"}, "`updated_after` is not a time"),
        ({"q": "x", "updated_after": -1}, "`updated_after` is not between"),
        ({"q": "x", "updated_after": 2, "updated_before": 1}, "later than `updated_before`"),
        ({"q": "x", "min_version": 2**63}, "`min_version` is not between"),
        ({"q": "x", "min_version": 2**70}, "`min_version` is not a whole number"),
        ({"q": "x", "explain": "yes"}, "`explain` is not true or false"),
        ({"q": "x", "cursor": "c" * 1025}, "`cursor` is longer than 1024"),
    ],
)
def test_what_is_wrong_is_named(world: Any, body: dict[str, Any], says: str) -> None:
    answer = world.ask(**body)
    assert answer.status_code == 400
    assert says in answer.json()["detail"]


def test_a_text_over_its_limit_names_the_setting(world: Any) -> None:
    answer = world.ask(q="x" * 4_097)
    assert answer.status_code == 413
    assert answer.json()["limit"] == "query_chars"
    assert world.ask(q="x", refs=["r" * 513]).json()["limit"] == "ref_bytes"


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("q=%zz", "not followed by two hex digits"),
        ("q=a%", "not followed by two hex digits"),
        ("q=%ff", "not percent-encoded UTF-8"),
        ("q=%ed%a0%80", "not percent-encoded UTF-8"),
        ("q=a&q=b", "`q` is given twice"),
        ("q=a&limit=ten", "`limit` cannot be read"),
        ("q=a&limit=%EF%BC%91", "`limit` cannot be read"),
        ("q=a&limit=" + "9" * 5000, "`limit` cannot be read"),
        ("q=a&explain=maybe", "`explain` cannot be read"),
        ("q=a&colour=red", "unknown parameter `colour`"),
        ("limit=3", "`q` is missing"),
        ("&".join(f"kinds=k{n}" for n in range(65)), "too many parameters"),
    ],
)
def test_a_bad_query_string_is_refused(world: Any, query: str, says: str) -> None:
    answer = world.reader.get(f"/v1/search?{query}", headers=world.headers("search"))
    assert answer.status_code == 400, answer.text
    assert says in answer.json()["detail"]


def test_an_unexpected_failure_is_a_500_with_an_id_and_leaks_no_text(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world.search = _raising(RuntimeError("the query was: top secret"))
    answer = world.reader.post(
        "/v1/search", json={"q": "x"}, headers=world.headers("search", **{"x-request-id": "abc.1"})
    )
    assert answer.status_code == 500
    assert answer.json()["request_id"] == answer.headers["x-request-id"] == "abc.1"
    assert "secret" not in answer.text + caplog.text
    assert "request abc.1 failed with RuntimeError" in caplog.text
    assert "in search" in caplog.text
