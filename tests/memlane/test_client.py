"""The client against a service that answers as told; each story with and without an event loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

import memlane

Handler = Callable[[httpx.Request], httpx.Response]
Ask = Callable[..., Any]


class Waits(list[float]):
    """The pauses that a client made, in s."""


def problem(status: int, slug: str, **fields: Any) -> httpx.Response:
    body = {"type": f"/v1/problems/{slug}", "title": "t", "status": status, "detail": "d"}
    return httpx.Response(status, json=body | {"hint": "h", "request_id": "r-1"} | fields)


@pytest.fixture(params=["plain", "async"])
def ask(request: pytest.FixtureRequest) -> Ask:
    """Makes one call of either client; `waits` collects its pauses."""

    def plain(handler: Handler, method: str, *args: Any, waits: Any = None, **more: Any) -> Any:
        limits = more.pop("limits", None)
        with memlane.Client(
            "http://node/",
            "ml_key",
            limits=limits,
            transport=httpx.MockTransport(handler),
            sleep=(Waits() if waits is None else waits).append,
        ) as client:
            found = getattr(client, method)(*args, **more)
            return list(found) if isinstance(found, Iterator) else found

    def with_loop(handler: Handler, method: str, *args: Any, waits: Any = None, **more: Any) -> Any:
        limits = more.pop("limits", None)

        async def sleep(seconds: float) -> None:
            (Waits() if waits is None else waits).append(seconds)

        async def run() -> Any:
            async with memlane.AsyncClient(
                "http://node/",
                "ml_key",
                limits=limits,
                transport=httpx.MockTransport(handler),
                sleep=sleep,
            ) as client:
                found = getattr(client, method)(*args, **more)
                if hasattr(found, "__aiter__"):
                    return [each async for each in found]
                return await found

        return asyncio.run(run())

    return plain if request.param == "plain" else with_loop


def in_turn(*answers: httpx.Response | Exception) -> tuple[Handler, list[httpx.Request]]:
    """Answers one after the other, the last for ever; and the requests that came."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        answer = answers[min(len(seen), len(answers)) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    return handle, seen


def test_each_method_sends_what_the_interface_takes(ask: Ask) -> None:
    sent = {
        ("search", "x", "kinds", "limit"): (
            *("POST", "/v1/search"),
            {"q": "x", "kinds": ["note"], "limit": 3},
        ),
        ("search_compact", "x"): ("POST", "/v1/search", {"q": "x", "layer": "compact"}),
        ("timeline", "note", "n1"): ("POST", "/v1/timeline", {"kind": "note", "ref": "n1"}),
        ("prefetch", "x"): ("POST", "/v1/prefetch", {"text": "x"}),
        ("status",): ("GET", "/v1/index", None),
        ("manifest",): ("GET", "/v1/manifest", None),
        ("bucket", "0a"): ("GET", "/v1/manifest/0a", None),
    }
    given = {"kinds": ["note"], "limit": 3}
    for (method, *args), (verb, path, body) in sent.items():
        more = {name: given[name] for name in args if name in given}
        handle, seen = in_turn(httpx.Response(200, json={"answer": method}))
        found = ask(handle, method, *[each for each in args if each not in given], **more)
        assert found == {"answer": method}
        assert (seen[0].method, seen[0].url.raw_path.decode()) == (verb, path)
        assert (json.loads(seen[0].content) if seen[0].content else None) == body
        assert seen[0].headers["authorization"] == "Bearer ml_key"


def test_documents_are_asked_for_by_name(ask: Ask) -> None:
    handle, seen = in_turn(httpx.Response(200, json={"documents": []}))
    ask(handle, "get", [("note", "n1"), {"kind": "task", "ref": "t1", "title": "as found"}])
    assert json.loads(seen[0].content) == {
        "refs": [{"kind": "note", "ref": "n1"}, {"kind": "task", "ref": "t1"}]
    }


def test_a_batch_whose_answer_was_lost_is_sent_again_under_the_same_key(ask: Ask) -> None:
    done = httpx.Response(200, json={"version": 4, "counts": {}, "results": [], "replayed": True})
    handle, seen = in_turn(httpx.ReadTimeout("lost"), httpx.Response(502), done)
    waits = Waits()
    told = ask(handle, "batch", [{"kind": "note", "ref": "ü"}], atomic=False, waits=waits)
    assert told["version"] == 4
    assert len({request.headers["idempotency-key"] for request in seen}) == 1
    assert {request.content for request in seen} == {'{"kind":"note","ref":"ü"}\n'.encode()}
    assert seen[0].url.query == b"atomic=false&durability=local"
    assert 0.125 <= waits[0] <= 0.25 <= waits[1] * 2 <= 1.0


def test_the_same_batch_later_is_another_request(ask: Ask) -> None:
    """Somebody may have deleted meanwhile what it says: the first answer would be a lie."""
    done = httpx.Response(200, json={"version": 1, "counts": {}, "results": []})
    handle, seen = in_turn(done)
    for _ in range(2):
        ask(handle, "batch", b'{"kind":"note","ref":"a"}\n')
    assert len({request.headers["idempotency-key"] for request in seen}) == 2


def test_not_now_is_obeyed_within_limits_and_told_when_it_stays(ask: Ask) -> None:
    busy = problem(503, "unavailable", retry_after_s=4)
    handle, seen = in_turn(busy)
    waits = Waits()
    limits = memlane.Limits(attempts=3, longest_pause_s=3.0)
    with pytest.raises(memlane.Unavailable) as caught:
        ask(handle, "status", limits=limits, waits=waits)
    assert len(seen) == 3
    assert all(1.5 <= wait <= 3.0 for wait in waits)
    assert len(waits) == 2
    assert caught.value.retry_after_s == 4


def test_a_retry_after_header_alone_counts_too(ask: Ask) -> None:
    handle, _ = in_turn(
        httpx.Response(429, headers={"retry-after": "2"}), httpx.Response(200, json={})
    )
    waits = Waits()
    ask(handle, "status", waits=waits)
    assert 1.0 <= waits[0] <= 2.0


def test_nobody_there_is_an_error_of_its_own(ask: Ask) -> None:
    handle, seen = in_turn(httpx.ConnectError("refused"))
    with pytest.raises(memlane.Unreachable, match="http://node does not answer"):
        ask(handle, "status", limits=memlane.Limits(attempts=2))
    assert len(seen) == 2


def test_a_reader_says_where_the_writer_is_and_it_is_remembered(ask: Ask) -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request.url.host)
        if request.url.host == "node":
            return problem(421, "not-the-writer", writer_url="http://writer/")
        return httpx.Response(200, json={"version": 1, "counts": {}, "results": []})

    seen: list[str] = []
    lines = [{"kind": "note", "ref": str(number)} for number in range(3)]
    told = ask(handle, "push", lines, limits=memlane.Limits(batch_lines=1))
    assert len(told) == 3
    assert seen == ["node", "writer", "writer", "writer"]


def test_a_writer_that_nobody_knows_is_told(ask: Ask) -> None:
    handle, seen = in_turn(problem(421, "not-the-writer", writer_url=None))
    with pytest.raises(memlane.NotTheWriter):
        ask(handle, "batch", b"{}\n")
    assert len(seen) == 1


@pytest.mark.parametrize(
    ("status", "slug", "error"),
    [
        (400, "invalid-request", memlane.InvalidRequest),
        (401, "unauthorized", memlane.Unauthorized),
        (403, "tenant-suspended", memlane.Forbidden),
        (404, "not-found", memlane.NotFound),
        (409, "conflict", memlane.Conflict),
        (409, "replica-behind", memlane.ReplicaBehind),
        (413, "too-large", memlane.TooLarge),
        (422, "invalid-batch", memlane.InvalidBatch),
        (418, "teapot", memlane.Refused),
    ],
)
def test_an_answer_that_is_an_error_is_raised_with_all_it_says(
    ask: Ask, status: int, slug: str, error: type[memlane.Refused]
) -> None:
    more = {"version": 3, "age_ms": 9, "limit": "batch_lines", "lines": [{"line": 1, "error": "e"}]}
    handle, seen = in_turn(problem(status, slug, **more))
    with pytest.raises(memlane.Refused) as caught:
        ask(handle, "status")
    told = caught.value
    assert type(told) is error
    assert len(seen) == 1
    assert (told.status, told.type) == (status, f"/v1/problems/{slug}")
    assert (told.detail, told.hint, told.title, told.request_id) == ("d", "h", "t", "r-1")
    if isinstance(told, memlane.ReplicaBehind):
        assert (told.version, told.age_ms) == (3, 9)
    if isinstance(told, memlane.TooLarge):
        assert told.limit == "batch_lines"
    if isinstance(told, memlane.InvalidBatch):
        assert told.lines == [{"line": 1, "error": "e"}]


def test_what_is_not_memlane_is_told(ask: Ask) -> None:
    handle, _ = in_turn(httpx.Response(200, text="<html>welcome</html>"))
    with pytest.raises(memlane.BadAnswer, match="not JSON"):
        ask(handle, "status")
    handle, _ = in_turn(httpx.Response(404, text="<html>no</html>"))
    with pytest.raises(memlane.NotFound, match="the service answered 404"):
        ask(handle, "status")


def test_an_endless_answer_is_cut_off(ask: Ask) -> None:
    handle, _ = in_turn(httpx.Response(200, content=b"x" * 2_000))
    with pytest.raises(memlane.BadAnswer, match="longer than 1000 bytes"):
        ask(handle, "status", limits=memlane.Limits(answer_bytes=1_000))


@pytest.mark.parametrize("url", ["nowhere", "http://[", "ftp://node", "http://node:99999"])
def test_an_address_that_is_none_is_an_error_of_ours(url: str) -> None:
    with (
        pytest.raises(memlane.MemlaneError),
        memlane.Client(url, "k", sleep=lambda _: None) as client,
    ):
        client.status()


def test_a_key_with_other_characters_is_an_error_of_ours() -> None:
    with pytest.raises(memlane.MemlaneError, match="ASCII"):
        memlane.Client("http://node", "ключ")


def test_what_went_over_the_wire_is_counted() -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b'{"a":1}'))
    with memlane.Client("http://node", "k", transport=transport) as client:
        client.call("POST", "/v1/search", {"q": "x" * 1_000})
        client.status()
        traffic = client.traffic
    assert traffic.requests == 2
    assert 1_200 < traffic.bytes_sent < 2_000
    assert 14 < traffic.bytes_received < 200
