"""The protocol's official client against real gunicorn workers and a real file.

This module is also what the workers import: `build` is their application factory.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import bpe_openai
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, TextContent
from starlette.types import ASGIApp

from service.app import create_reader_app
from service.index.document import Document
from service.serve import ENVIRONMENT, ServeOptions
from service.settings import Settings
from service.telemetry.states import read_totals
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView
from service.text.tokens import bound_tokens
from tests.http.real import SECRET, RealFiles, notes, real_world
from tests.http.test_hostile import BODIES, SEED, VALUES, generated
from tests.http.test_serve import free_port, wait_for

MODES = ["auto", "legacy"]
"""The protocol of 2026, one request at a time, and the one with a handshake before it."""


def build(config: Mapping[str, Any]) -> ASGIApp:
    folder = Path(config["folder"])
    registry = Registry(folder / "registry.sqlite", SECRET)
    return create_reader_app(
        settings=Settings(),
        files=RealFiles(folder),
        view=RegistryView(lambda: registry.path, SECRET),
        counters=folder / "counters",
        resources=[registry],
    )


class Server:
    """Two workers over two tenants, `acme` with notes and one long document, and `other`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with real_world(folder) as world:
            long = Document(kind="note", ref="long", title="Everything", note="word " * 200_000)
            self.key = world.tenant("acme", [*notes(30), long])
            self.other_key = world.tenant("other", notes(1, words="holiday plan"))
        port = free_port()
        options = ServeOptions(
            factory="tests.http.test_mcp:build",
            config={"folder": str(folder)},
            port=port,
            workers=2,
        )
        self.url = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service.serve"],
            env={ENVIRONMENT: options.to_json(), "PATH": ""},
            cwd=Path(__file__).parents[2],
        )
        wait_for(self.up)

    def up(self) -> bool:
        with contextlib.suppress(httpx2.HTTPError):
            return httpx2.get(f"{self.url}/healthz").is_success
        return False

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("mcp"))
    try:
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def client(server: Server, mode: str = "auto", key: str = "") -> AsyncIterator[Client]:
    headers = {"authorization": f"Bearer {key or server.key}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
        transport = streamable_http_client(f"{server.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            yield client


def text_of(result: Any) -> str:
    assert isinstance(result, CallToolResult)
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def refs_of(page: str) -> list[str]:
    return [line.split("`")[1] for line in page.splitlines() if ". note `" in line]


@pytest.mark.parametrize("mode", MODES)
def test_an_agent_goes_from_rows_to_the_timeline_to_the_document(server: Server, mode: str) -> None:
    async def walk() -> None:
        async with client(server, mode) as agent:
            tools = await agent.list_tools()
            assert [tool.name for tool in tools.tools] == ["search", "timeline", "get", "status"]
            found = await agent.call_tool("search", {"q": "retry policy of service 7", "limit": 3})
            assert text_of(found).splitlines()[1].startswith("1. note `note-7` The gateway retry")
            around = await agent.call_tool(
                "timeline", {"kind": "note", "ref": "note-7", "before": 1, "after": 1}
            )
            refs = [line.split("`")[1] for line in text_of(around).splitlines()[1:4]]
            assert refs == ["note-6", "note-7", "note-8"]
            whole = await agent.call_tool("get", {"refs": [{"kind": "note", "ref": "note-7"}]})
            assert text_of(whole).count("waits longer after each attempt number 7.") == 40
            told = await agent.call_tool("status", {})
            assert text_of(told).startswith("acme: 31 documents (31 note); version 1, ")

    anyio.run(walk)


def test_no_call_depends_on_the_worker_that_answered_the_one_before(server: Server) -> None:
    async def walk() -> None:
        async with client(server, "legacy") as agent, anyio.create_task_group() as group:
            for _ in range(16):
                group.start_soon(agent.call_tool, "status", {})

    anyio.run(walk)


def test_a_key_is_a_tenant_and_a_wrong_one_is_none(server: Server) -> None:
    async def walk() -> None:
        async with client(server, key=server.other_key) as agent:
            assert "holiday" in text_of(await agent.call_tool("search", {"q": "plan"}))
            assert "0 hits" in text_of(await agent.call_tool("search", {"q": "gateway"}))
        with pytest.raises(BaseExceptionGroup) as refused:
            async with client(server, "legacy", key=server.key[:-1] + "x") as agent:
                await agent.list_tools()
        assert refused.group_contains(MCPError)

    anyio.run(walk)
    headers = {"authorization": "Bearer nonsense"}
    answer = httpx2.post(f"{server.url}/mcp", json={}, headers=headers)
    assert answer.status_code == 401
    assert answer.json()["type"] == "/v1/problems/unauthorized"


def test_what_does_not_fit_is_cut_and_said(server: Server) -> None:
    tokens = bpe_openai.get_encoding("o200k_base")

    async def walk() -> None:
        async with client(server) as agent:
            refs = [{"kind": "note", "ref": ref} for ref in ("long", "note-1")]
            for limit in (None, 800):
                asked: dict[str, Any] = {"refs": refs}
                if limit is not None:
                    asked["limit_tokens"] = limit
                told = text_of(await agent.call_tool("get", asked))
                assert len(tokens.encode(told)) <= (limit or Settings().mcp_tokens)
                assert "Cut: note of note `long` to " in told
                assert "Left out: note `note-1`" in told
            page = {"q": "gateway", "limit": 30, "limit_tokens": 500}
            told = text_of(await agent.call_tool("search", page))
            shown = told.count(". note `")
            assert 0 < shown < 30
            assert f"{30 - shown} more left out for want of room." in told
            cursor = told.split("cursor `")[1].split("`")[0]
            following = text_of(await agent.call_tool("search", page | {"cursor": cursor}))
            seen, more = refs_of(told), refs_of(following)
            assert len(seen) == shown
            assert more
            assert not set(seen) & set(more)

    anyio.run(walk)


def test_a_call_that_cannot_be_read_says_what_to_correct(server: Server) -> None:
    async def walk() -> None:
        async with client(server) as agent:
            for name, arguments, told in (
                ("search", {"q": "a", "color": "red"}, "unknown field `color`"),
                ("search", {}, "`q` is missing"),
                ("timeline", {"kind": "note", "ref": "nothing"}, "there is no such document"),
                ("get", {"refs": "note-1"}, "`refs` is not a list"),
                ("get", {"refs": [], "limit_tokens": 10**9}, "`limit_tokens` is not between"),
                ("forget", {}, "there is no such tool"),
            ):
                answer = await agent.call_tool(name, arguments)
                assert answer.is_error
                assert told in text_of(answer)

    anyio.run(walk)


def test_every_search_is_counted_once_with_its_semantic_state(server: Server) -> None:
    before = read_totals(server.folder / "counters")

    async def walk() -> None:
        async with client(server) as agent:
            for _ in range(5):
                await agent.call_tool("search", {"q": "gateway"})
            await agent.call_tool("status", {})

    anyio.run(walk)
    key = ("reader", "disabled", "no_sidecar")
    after = read_totals(server.folder / "counters")
    assert after[key] - before.get(key, 0) == 5
    assert set(after) == {key}


def test_all_tools_cost_an_agent_less_than_900_tokens(server: Server) -> None:
    async def listed() -> str:
        async with client(server) as agent:
            tools = (await agent.list_tools()).tools
            return json.dumps([tool.model_dump(by_alias=True, exclude_none=True) for tool in tools])

    text = anyio.run(listed)
    for name in ("o200k_base", "cl100k_base"):
        assert len(bpe_openai.get_encoding(name).encode(text)) < 900
    assert bound_tokens(text) < 1_200


def test_a_body_that_is_no_message_is_refused(server: Server) -> None:
    headers = {"authorization": f"Bearer {server.key}", "accept": "application/json"}
    for body in (b"", b"[]", b"{", b'{"jsonrpc": "2.0"}', b"\xff"):
        answer = httpx2.post(
            f"{server.url}/mcp",
            content=body,
            headers=headers | {"content-type": "application/json"},
        )
        assert 400 <= answer.status_code < 500
    huge = httpx2.post(f"{server.url}/mcp", content=b" " * 100_000, headers=headers)
    assert huge.status_code == 413
    assert httpx2.get(f"{server.url}/mcp", headers=headers).status_code == 405


def test_no_body_brings_it_down(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    with real_world(tmp_path) as world:
        headers = {"authorization": f"Bearer {world.tenant('acme', [])}", "accept": "*/*"}
        for version in (None, "2025-06-18", "2026-07-28", "nonsense"):
            named = {} if version is None else {"mcp-protocol-version": version}
            for body in [*BODIES, *(generated(rng) for _ in range(20)), *_calls(rng)]:
                answer = world.client.post(
                    "/mcp",
                    content=body,
                    headers=headers | named | {"content-type": "application/json"},
                )
                assert answer.status_code < 500


def _calls(rng: random.Random) -> Iterator[bytes]:
    """Calls of the tools with arguments of any kind."""
    for name in ("search", "timeline", "get", "status"):
        for _ in range(10):
            arguments = {rng.choice(["q", "kind", "ref", "refs", "x"]): rng.choice(VALUES)}
            params = {"name": name, "arguments": arguments}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
            yield json.dumps(message).encode()


@pytest.mark.parametrize("mode", MODES)
def test_the_command_passes_a_pipe_on_to_the_service(server: Server, mode: str) -> None:
    def started(key: str) -> Any:
        arguments = ["-m", "service", "mcp", "--url", server.url, "--key", key]
        return stdio_client(
            StdioServerParameters(
                command=sys.executable, args=arguments, cwd=str(Path(__file__).parents[2])
            )
        )

    async def walk() -> None:
        async with Client(started(server.key), mode=mode) as agent:
            found = text_of(await agent.call_tool("search", {"q": "retry policy of service 7"}))
            assert "`note-7`" in found
            whole = await agent.call_tool("get", {"refs": [{"kind": "note", "ref": "无"}]})
            assert "Missing: note `无`" in text_of(whole)
        with pytest.raises(BaseExceptionGroup) as refused:
            async with Client(started("nonsense"), mode="legacy") as agent:
                await agent.list_tools()
        assert refused.group_contains(MCPError, match="401")

    anyio.run(walk)
