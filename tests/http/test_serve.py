"""Real gunicorn, real workers, real sockets; only the tenant's file is made up.

This module is also what the workers import: `build` is their application factory.
"""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from starlette.types import ASGIApp

from service.app import create_writer_app
from service.errors import InvalidSetting, SetupError
from service.index.writer import BatchResult
from service.search.request import SearchRequest, SearchResult
from service.serve import ENVIRONMENT, ServeOptions, check_port, load_factory, serve
from service.settings import Settings
from service.telemetry.states import read_totals
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView

SECRET = b"s" * 32
DEADLINE_S = 30


class EmptyFile:
    """A tenant's file without documents; the application's parts below it."""

    version, docs, age_ms, as_of_ms, temperature = 1, 0, 0, 0, "hot"

    @property
    def reader(self) -> Any:
        return self

    @contextmanager
    def open(self, file: str, **_: Any) -> Iterator[Any]:
        yield self

    def health(self) -> dict[str, Any]:
        return {"ready": True, "reasons": []}

    def apply(self, file: str, operations: Any, **_: Any) -> BatchResult:
        return BatchResult(1, [])

    def vectors(self, file: str) -> AbstractContextManager[Any]:
        raise NotImplementedError

    def writer_url(self, shard: str) -> str | None:
        return None


class NoLifecycle:
    """Nothing is administered here."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(name)


def build(config: Mapping[str, Any]) -> ASGIApp:
    folder = Path(config["folder"])

    def answer(_: Any, request: SearchRequest, __: object) -> SearchResult:
        """Names the worker; the query `slow` takes until it is told to go on."""
        if request.q == "slow":
            (folder / "begun").touch()
            wait_for((folder / "go-on").exists)
        read_as = {"pid": os.getpid()}
        return SearchResult(hits=[], cursor=None, read_as=read_as, explain=None, took_ms={})

    registry = Registry(folder / "registry.sqlite", SECRET)
    return create_writer_app(
        settings=Settings(request_bytes=100_000),
        tenants=EmptyFile(),
        registry=registry,
        lifecycle=NoLifecycle(),
        view=RegistryView(lambda: registry.path, SECRET),
        counters=folder / "counters",
        resources=[registry],
        search=answer,
    )


class Server:
    def __init__(self, folder: Path, key: str, port: int) -> None:
        self.folder = folder
        self.key = key
        self.port = port
        self.options = ServeOptions(
            factory=f"{Path(__file__).stem}:build",
            config={"folder": str(folder)},
            port=port,
            workers=2,
            keepalive_s=2,
            drain_ms=10_000,
        )
        path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
        environment = {**os.environ, ENVIRONMENT: self.options.to_json(), "PYTHONPATH": path}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "service.serve"], env=environment, stderr=subprocess.PIPE
        )

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE_S)

    def ask(self, connection: http.client.HTTPConnection | None = None, q: str = "x") -> int:
        """One search; the answering worker's pid."""
        own = connection is None
        connection = connection or self.connect()
        headers = {"Authorization": f"Bearer {self.key}"}
        connection.request("POST", "/v1/search", json.dumps({"q": q}), headers)
        response = connection.getresponse()
        body = json.loads(response.read())
        assert response.status == 200, body
        if own:
            connection.close()
        return int(body["read_as"]["pid"])

    def up(self) -> bool:
        try:
            connection = self.connect()
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except OSError:
            assert self.process.poll() is None, self.errors()
            return False

    def refuses(self) -> bool:
        """Whether new connections are refused."""
        try:
            socket.create_connection(("127.0.0.1", self.port), DEADLINE_S).close()
        except ConnectionRefusedError:
            return True
        return False

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def both_workers(self, beside: int | None = None) -> set[int]:
        """Ask until two workers have answered, neither of them `beside`."""
        seen: set[int] = set()

        def two() -> bool:
            seen.add(self.ask())
            self.asked += 1
            return len(seen - {beside}) == 2

        wait_for(two)
        return seen - {beside}

    asked = 0


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Registry(tmp_path / "registry.sqlite", SECRET) as registry:
        registry.create_tenant("acme")
        key = registry.create_key("acme", ["search", "sync"]).key.text
    server = Server(tmp_path, key, free_port())
    try:
        wait_for(server.up)
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_both_workers_answer_and_their_counts_add_up_over_a_killed_one(server: Server) -> None:
    workers = server.both_workers()
    victim = workers.pop()
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not Path(f"/proc/{victim}").exists())
    survivors = server.both_workers(beside=victim)
    assert workers < survivors
    assert sum(read_totals(server.folder / "counters").values()) == server.asked
    server.process.send_signal(signal.SIGHUP)  # all workers are replaced by new ones

    def replaced() -> bool:
        server.asked += 1
        return server.ask() not in survivors

    wait_for(replaced)
    expected = {("writer", "disabled", "no_sidecar"): server.asked}
    assert read_totals(server.folder / "counters") == expected


def test_one_connection_carries_many_requests(server: Server) -> None:
    connection = server.connect()
    pids = {server.ask(connection) for _ in range(20)}
    assert len(pids) == 1
    assert connection.sock is not None
    connection.close()


def test_sigterm_lets_a_request_finish_and_exits_with_0(server: Server) -> None:
    answers: list[int] = []
    slow = threading.Thread(target=lambda: answers.append(server.ask(q="slow")))
    slow.start()
    wait_for((server.folder / "begun").exists)
    server.process.send_signal(signal.SIGTERM)
    wait_for(server.refuses)
    (server.folder / "go-on").touch()
    slow.join()
    assert len(answers) == 1
    assert server.process.wait(DEADLINE_S) == 0


def test_a_body_nobody_wanted_still_gets_its_answer(server: Server) -> None:
    """Without reading on, the kernel would reset the connection and the answer with it."""
    connection = server.connect()
    headers = {"Authorization": f"Bearer {server.key}"}
    connection.request("POST", "/v1/documents:batch", b"\n" * 4_000_000, headers)
    response = connection.getresponse()
    assert response.status == 413
    assert json.loads(response.read())["type"] == "/v1/problems/too-large"


def test_broken_http_does_not_reach_or_harm_a_worker(server: Server) -> None:
    for garbage in (
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"x" * 20_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nBad\x00Name: \xff\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ):
        with socket.create_connection(("127.0.0.1", server.port), DEADLINE_S) as peer:
            peer.sendall(garbage)
            peer.shutdown(socket.SHUT_WR)
            assert not peer.recv(65_536).startswith(b"HTTP/1.1 5")
    workers = server.both_workers()
    assert len(workers) == 2


def test_a_taken_port_stops_the_start_and_says_what_to_do(server: Server) -> None:
    with pytest.raises(SetupError, match=f"port {server.port}: Address already in use") as error:
        serve(server.options)
    assert "--port" in error.value.hint
    second = Server(server.folder, server.key, server.port)
    assert second.process.wait(DEADLINE_S) == 1
    assert "Address already in use" in second.errors()


def test_a_factory_that_cannot_start_stops_the_server(tmp_path: Path) -> None:
    server = Server(tmp_path / "missing" / "folder", "", free_port())
    assert server.process.wait(DEADLINE_S) != 0
    assert server.errors()


def test_options_survive_their_way_through_the_environment() -> None:
    options = ServeOptions(factory="a:b", config={"n": 1}, port=81)
    assert ServeOptions.from_json(options.to_json()) == options
    for text in ("", "[]", '{"colour": 1}', "{}"):
        with pytest.raises(InvalidSetting):
            ServeOptions.from_json(text)


def test_a_factory_must_exist() -> None:
    assert load_factory("json:dumps")({}) == "{}"  # type: ignore[comparison-overlap]
    for name in ("nothing:here", "json:nothing", "json", ""):
        with pytest.raises(SetupError):
            load_factory(name)
    with pytest.raises(SetupError, match="cannot listen"):
        check_port("203.0.113.1", 80)  # TEST-NET-3, never this machine's (RFC 5737)
