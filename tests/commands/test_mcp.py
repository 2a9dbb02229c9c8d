"""What `memlane mcp` does with what a client says and with what a service answers."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import httpx

from service.commands.mcp import MESSAGE_BYTES, Proxy

VERSION = "io.modelcontextprotocol/protocolVersion"


def passed(
    answer: Callable[[httpx.Request], httpx.Response], *lines: object
) -> tuple[list[Any], list[httpx.Request]]:
    """What comes out for these lines, and what was sent on."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return answer(request)

    out = io.BytesIO()
    raw = [line if isinstance(line, bytes) else json.dumps(line).encode() for line in lines]
    with Proxy("http://service/mcp", "ml_key", out, httpx.MockTransport(handle)) as proxy:
        for line in raw:  # one after the other: what is sent may depend on what came back
            proxy.run(io.BytesIO(line + b"\n"))
    return [json.loads(line) for line in out.getvalue().splitlines()], seen


def echo(request: httpx.Request) -> httpx.Response:
    message = json.loads(request.content)
    if "id" not in message:
        return httpx.Response(202)
    result = {"protocolVersion": "2025-06-18", "said": message["method"]}
    return httpx.Response(200, json={"jsonrpc": "2.0", "id": message["id"], "result": result})


def test_a_message_is_sent_as_it_stands_with_the_key_and_answered_on_a_line() -> None:
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/list"}
    told, (request,) = passed(echo, call)
    assert told[0]["id"] == 7
    assert told[0]["result"]["said"] == "tools/list"
    assert json.loads(request.content) == call
    assert request.headers["authorization"] == "Bearer ml_key"
    assert request.headers["mcp-method"] == "tools/list"
    assert "mcp-protocol-version" not in request.headers


def test_the_version_of_the_handshake_goes_into_the_headers_after_it() -> None:
    start = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}}
    done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    told, seen = passed(echo, start, done, call)
    assert [each["id"] for each in told] == [0, 1], "a notification has no answer"
    versions = [request.headers.get("mcp-protocol-version") for request in seen]
    assert versions == [None, "2025-06-18", "2025-06-18"]


def test_later_messages_name_version_and_tool_themselves() -> None:
    params = {"name": "检索", "_meta": {VERSION: "2026-07-28"}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    _, (request,) = passed(echo, call)
    assert request.headers["mcp-protocol-version"] == "2026-07-28"
    assert request.headers["mcp-name"] == "=?base64?5qOA57Si?="


def test_a_refusal_is_told_in_the_services_own_words() -> None:
    def refuse(_: httpx.Request) -> httpx.Response:
        return httpx.Response(401, json={"detail": "there is no key", "hint": "Send one."})

    told, _ = passed(refuse, {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert told[0]["id"] == 1
    assert told[0]["error"]["message"] == "401: there is no key. Send one."


def test_a_service_that_is_not_there_and_one_that_talks_nonsense() -> None:
    def gone(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    call = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    told, _ = passed(gone, call)
    assert "http://service/mcp does not answer (ConnectError)" in told[0]["error"]["message"]
    for answer in (
        httpx.Response(200, text="<html>"),
        httpx.Response(502, text=""),
        httpx.Response(200, json=[1]),
    ):
        told, _ = passed(lambda _, answer=answer: answer, call)  # type: ignore[misc]
        assert told[0]["error"]["code"] < 0


def test_what_is_no_message_is_refused_here() -> None:
    told, seen = passed(echo, b"{", b"[1]", b" ", b'"' + b"a" * MESSAGE_BYTES + b'"')
    assert seen == []
    assert {each["error"]["code"] for each in told} == {-32_700}
    assert all(each["id"] is None for each in told)
