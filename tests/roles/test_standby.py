from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress

import httpx
import pytest

from service.errors import SetupError
from service.roles import standby
from service.roles.standby import StandbyServer
from tests.e2e.service import free_ports, wait_for

HEALTH = {"ready": False, "role": "writer", "reasons": ["standby: another writer has it"]}


@pytest.fixture
def port() -> Iterator[int]:
    number = free_ports()
    server = StandbyServer("127.0.0.1", number, lambda: HEALTH)
    yield number
    server.close()


def test_it_is_alive_and_not_ready(port: int) -> None:
    url = f"http://127.0.0.1:{port}"
    assert httpx.get(f"{url}/healthz").json() == {"status": "ok", "role": "writer"}
    ready = httpx.get(f"{url}/readyz")
    assert (ready.status_code, ready.json()) == (503, HEALTH)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_whatever_else_is_asked_it_says_why_not(port: int, method: str) -> None:
    answer = httpx.request(method, f"http://127.0.0.1:{port}/v1/documents:batch?x=1")
    assert answer.status_code == 503
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["retry-after"] == "2"
    problem = answer.json()
    assert problem["type"] == "/v1/problems/unavailable"
    assert "standby: another writer has it" in problem["detail"]


def test_one_silent_caller_too_many_is_hung_up_on(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(standby._Handler, "timeout", 60.0)
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(standby.CALLERS)]
    with socket.create_connection(("127.0.0.1", port)) as one_more:
        assert one_more.recv(1) == b""
    for one in silent:
        one.setblocking(False)
        with pytest.raises(BlockingIOError):
            one.recv(1)
        one.close()

    def answers() -> bool:
        with suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
        return False

    wait_for(answers, what="a free place")


def test_a_taken_port_is_said_so_and_a_closed_server_gives_it_free(port: int) -> None:
    with pytest.raises(SetupError, match=f"port {port}"):
        StandbyServer("127.0.0.1", port, lambda: HEALTH)
    other = free_ports()
    for _ in range(3):
        StandbyServer("127.0.0.1", other, lambda: HEALTH).close()
