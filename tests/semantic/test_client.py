from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

from service.errors import SetupError
from service.semantic.breaker import Breaker
from service.semantic.client import EmbedClient
from service.semantic.flights import Failure, Flight, Held
from service.settings import Settings
from tests.e2e.service import free_ports, wait_for
from tests.semantic.sidecar import MODEL, FakeSidecar, serve, vector


@pytest.fixture
def sidecar() -> Iterator[tuple[FakeSidecar, int]]:
    fake = FakeSidecar()
    server, port = serve(fake)
    yield fake, port
    server.stop(0)


@pytest.fixture
def connect() -> Iterator[Callable[..., EmbedClient]]:
    clients: list[EmbedClient] = []

    def make(port: int, **limits: int) -> EmbedClient:
        clients.append(EmbedClient(f"127.0.0.1:{port}", Settings(**limits)))
        return clients[-1]

    yield make
    for client in clients:
        client.close()


def get(client: EmbedClient, text: str, seconds: float = 5.0, model: str = MODEL) -> Any:
    asked = client.ask(text, model)
    return client.wait(asked, seconds) if isinstance(asked, Flight) else asked


def test_a_vector_is_asked_for_once_and_then_known(
    sidecar: tuple[FakeSidecar, int], connect: Callable[..., EmbedClient]
) -> None:
    client = connect(sidecar[1])
    first = get(client, "two words")
    second = client.ask("two words", MODEL)
    assert first.tobytes() == vector("two words")
    assert isinstance(second, np.ndarray)
    assert sidecar[0].queries == ["two words"]


def test_equal_texts_in_flight_share_one_call(
    sidecar: tuple[FakeSidecar, int], connect: Callable[..., EmbedClient]
) -> None:
    sidecar[0].delay_s = 0.3
    client = connect(sidecar[1])
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(get(client, "same"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert all(one.tobytes() == vector("same") for one in found)
    assert sidecar[0].queries == ["same"]


def test_an_answer_after_its_deadline_is_kept_for_the_next_one(
    sidecar: tuple[FakeSidecar, int], connect: Callable[..., EmbedClient]
) -> None:
    sidecar[0].delay_s = 0.2
    client = connect(sidecar[1], semantic_deadline_ms=1_000)
    assert get(client, "late", seconds=0.02) is Failure.DEADLINE
    wait_for(lambda: isinstance(client.ask("late", MODEL), np.ndarray), what="the late answer")
    assert sidecar[0].queries == ["late"]


def test_few_vectors_are_kept_and_the_least_recently_used_goes(
    sidecar: tuple[FakeSidecar, int], connect: Callable[..., EmbedClient]
) -> None:
    client = connect(sidecar[1], semantic_vectors=2)
    for text in ("a", "b", "a", "c", "a", "b"):
        get(client, text)
    assert sidecar[0].queries == ["a", "b", "c", "b"]


def test_models_do_not_share_vectors(
    sidecar: tuple[FakeSidecar, int], connect: Callable[..., EmbedClient]
) -> None:
    client = connect(sidecar[1])
    get(client, "text")
    assert get(client, "text", model="another@000000000000") is Failure.OTHER_MODEL
    assert not client.breaker.is_open


@pytest.mark.parametrize(
    ("status", "failure"),
    [
        (grpc.StatusCode.UNAVAILABLE, Failure.UNAVAILABLE),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Failure.OVERLOADED),
        (grpc.StatusCode.DEADLINE_EXCEEDED, Failure.DEADLINE),
        (grpc.StatusCode.INVALID_ARGUMENT, Failure.REFUSED),
    ],
)
def test_each_status_is_one_failure(
    sidecar: tuple[FakeSidecar, int],
    connect: Callable[..., EmbedClient],
    status: grpc.StatusCode,
    failure: Failure,
) -> None:
    sidecar[0].fail = status
    assert get(connect(sidecar[1]), "text") is failure


def test_a_sidecar_that_is_gone_is_left_alone_and_found_again(
    connect: Callable[..., EmbedClient],
) -> None:
    port = free_ports()
    client = connect(port, semantic_failures=2, semantic_pause_ms=200)
    assert [get(client, "one"), get(client, "two")] == [Failure.UNAVAILABLE] * 2
    assert isinstance(client.ask("three", MODEL), Held)
    server, _ = serve(FakeSidecar(), port)
    begun = time.monotonic()
    wait_for(lambda: isinstance(get(client, "four"), np.ndarray), what="the sidecar's return")
    assert time.monotonic() - begun < 5
    assert not client.breaker.is_open
    server.stop(0)


def test_a_callers_own_short_deadline_opens_no_circuit_and_a_silent_sidecar_does(
    sidecar: tuple[FakeSidecar, int], connect: Callable[..., EmbedClient]
) -> None:
    sidecar[0].delay_s = 0.05
    client = connect(sidecar[1], semantic_deadline_ms=2_000, semantic_failures=1)
    assert get(client, "hurried", seconds=0.001) is Failure.DEADLINE
    assert get(client, "patient") is not Failure.DEADLINE
    assert not client.breaker.is_open
    sidecar[0].delay_s = 0.5
    slow = connect(sidecar[1], semantic_deadline_ms=50, semantic_failures=1)
    assert get(slow, "text", seconds=0.05) is Failure.DEADLINE
    assert slow.breaker.is_open


def test_an_open_breaker_lets_one_try_through_every_so_often() -> None:
    now = [0.0]
    breaker = Breaker(failures_most=2, pause_ms=1_000, clock=lambda: now[0])
    breaker.failed()
    assert breaker.allows()
    breaker.failed()
    assert [breaker.allows(), breaker.allows()] == [False, False]
    now[0] = 1.0
    assert [breaker.allows(), breaker.allows()] == [True, False]
    breaker.succeeded()
    assert [breaker.allows(), breaker.allows()] == [True, True]


def test_what_is_no_address_is_refused_at_the_start() -> None:
    with pytest.raises(SetupError, match="not the address"):
        EmbedClient("a model", Settings())
