"""A server is asked over HTTP; what it says wrongly is an error, never an empty answer."""

from __future__ import annotations

import json
from collections.abc import Callable

import httpx
import pytest

from golden.answers import Found
from golden.backends import Remote
from service.errors import SetupError, Unavailable

HIT = {"kind": "note", "ref": "a", "title": "T", "score": 0.5, "components": {"coverage": 1.0}}


def remote(handler: Callable[[httpx.Request], httpx.Response]) -> Remote:
    return Remote("http://memory.example/", "ml_key", transport=httpx.MockTransport(handler))


def test_a_search_carries_the_key_and_the_filters() -> None:
    seen: list[httpx.Request] = []

    def handler(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json={"hits": [HIT], "semantic": {"state": "cold"}})

    with remote(handler) as backend:
        answer = backend.search("depot", 5, kinds=("note",), updated_after_ms=7)
    assert str(seen[0].url) == "http://memory.example/v1/search"
    assert seen[0].headers["authorization"] == "Bearer ml_key"
    assert json.loads(seen[0].content) == {
        "q": "depot",
        "limit": 5,
        "kinds": ["note"],
        "updated_after": 7,
    }
    assert answer.hits == [Found("note", "a", "T", 0.5, {"coverage": 1.0})]
    assert (answer.semantic_state, answer.cpu_ms) == ("cold", None)


def test_a_busy_server_is_asked_again() -> None:
    answers = iter([429, 503, 200])

    def handler(request: httpx.Request) -> httpx.Response:
        return httpx.Response(next(answers), json={"hits": []}, headers={"Retry-After": "0"})

    with remote(handler) as backend:
        assert backend.search("depot", 5).hits == []


def test_a_server_that_stays_busy_ends_the_run() -> None:
    with (
        remote(lambda _: httpx.Response(503, headers={"Retry-After": "0"})) as backend,
        pytest.raises(Unavailable, match="stayed busy"),
    ):
        backend.search("depot", 5)


@pytest.mark.parametrize(
    ("response", "said"),
    [
        (httpx.Response(401, json={"title": "no"}), "answered 401"),
        (httpx.Response(200, text="<html>"), "not a search result"),
        (httpx.Response(200, json={"hits": [{"ref": "a"}]}), "not a search result"),
        (httpx.Response(200, json=[]), "not a search result"),
    ],
)
def test_a_wrong_answer_is_an_error(response: httpx.Response, said: str) -> None:
    with remote(lambda _: response) as backend, pytest.raises(SetupError, match=said):
        backend.search("depot", 5)


def test_a_server_that_is_not_there_is_named() -> None:
    def handler(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    with remote(handler) as backend, pytest.raises(SetupError, match=r"memory\.example"):
        backend.search("depot", 5)
