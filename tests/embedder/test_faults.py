"""What callers do wrong, against a real server: each a clear status, and the server goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from embedder import service
from embedder.embed_pb2 import (
    EmbedPassagesRequest,
    EmbedQueryRequest,
    InfoRequest,
    SplitRequest,
)
from embedder.errors import Expired
from embedder.limits import Limits
from embedder.service import _deadline
from embedder.tokens import Tokens
from tests.embedder.world import WAIT_S, Sidecar

MIB = 1024 * 1024


@pytest.fixture
def small(tiny: Path) -> Iterator[Sidecar]:
    """A server with small queues, whose model waits when told to."""
    limits = Limits(queries=2, passages=4, query_batch=1)
    with Sidecar(tiny, limits=limits) as running:
        yield running


def status(call: Callable[[], object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.RpcError) as raised:
        call()
    return raised.value.code(), raised.value.details() or ""


def alive(server: Sidecar) -> bool:
    reply = server.stub.EmbedQuery(EmbedQueryRequest(text="words"), timeout=WAIT_S)
    return len(reply.embedding.vector) == 32


def poll(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_an_empty_text_is_a_text(sidecar: Sidecar) -> None:
    reply = sidecar.stub.EmbedQuery(EmbedQueryRequest(), timeout=WAIT_S)
    assert len(reply.embedding.vector) == 32
    request = EmbedPassagesRequest(texts=["", " "])
    blank = sidecar.stub.EmbedPassages(request, timeout=WAIT_S)
    assert [len(found.vector) for found in blank.embeddings] == [32, 32]


def test_no_texts_at_all(sidecar: Sidecar) -> None:
    expected = (grpc.StatusCode.INVALID_ARGUMENT, "there are no texts")
    stub = sidecar.stub
    assert status(lambda: stub.EmbedPassages(EmbedPassagesRequest(), timeout=WAIT_S)) == expected
    assert status(lambda: stub.Split(SplitRequest(), timeout=WAIT_S)) == expected


@pytest.mark.parametrize("kind", ["query", "passages"])
def test_a_text_of_1_mb(sidecar: Sidecar, kind: str) -> None:
    text = "word " * 210_000
    stub = sidecar.stub
    code, told = status(
        lambda: (
            stub.EmbedQuery(EmbedQueryRequest(text=text), timeout=WAIT_S)
            if kind == "query"
            else stub.EmbedPassages(EmbedPassagesRequest(texts=["ok", text]), timeout=WAIT_S)
        )
    )
    assert code == grpc.StatusCode.INVALID_ARGUMENT
    assert told == "a text of 1050000 characters is over the limit of 100000"
    assert alive(sidecar)


def test_a_text_of_1_mb_can_be_split_while_queries_are_answered(sidecar: Sidecar) -> None:
    text = "The writer keeps the file.\n" * 40_000
    splitting = sidecar.stub.Split.future(SplitRequest(texts=[text]), timeout=60)
    answered = 0
    while not splitting.done():
        assert alive(sidecar)
        answered += 1
    assert answered > 1
    [spans] = splitting.result().texts
    assert spans.spans[-1].end == len(text) - 1


def test_10_000_texts_at_once(sidecar: Sidecar) -> None:
    texts = ["word"] * 10_000
    stub = sidecar.stub
    expected = (
        grpc.StatusCode.INVALID_ARGUMENT,
        "10000 texts are over the limit of 256",
    )
    request = EmbedPassagesRequest(texts=texts)
    assert status(lambda: stub.EmbedPassages(request, timeout=WAIT_S)) == expected
    assert status(lambda: stub.Split(SplitRequest(texts=texts), timeout=WAIT_S)) == expected
    assert alive(sidecar)


def test_a_message_over_the_limit_is_refused_unread(sidecar: Sidecar) -> None:
    text = "x" * (40 * MIB)
    code, _ = status(lambda: sidecar.stub.EmbedQuery(EmbedQueryRequest(text=text), timeout=WAIT_S))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert alive(sidecar)


def test_another_model_than_expected(sidecar: Sidecar) -> None:
    request = EmbedQueryRequest(text="x", model="tiny@000000000000")
    code, told = status(lambda: sidecar.stub.EmbedQuery(request, timeout=WAIT_S))
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert sidecar.model.id in told


def test_a_deadline_that_has_passed(sidecar: Sidecar) -> None:
    before = len(sidecar.gate.ran)
    request = EmbedQueryRequest(text="x")
    code, _ = status(partial(sidecar.stub.EmbedQuery, request, timeout=-1.0))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED
    assert len(sidecar.gate.ran) == before
    assert alive(sidecar)


def test_a_deadline_that_passed_on_the_way_is_seen_when_the_request_is_read() -> None:
    context: Any = SimpleNamespace(time_remaining=lambda: -0.001)
    with pytest.raises(Expired):
        _deadline(context)


def test_a_deadline_that_passes_in_the_queue_costs_no_run(small: Sidecar) -> None:
    small.gate.open.clear()
    first = small.stub.EmbedQuery.future(EmbedQueryRequest(text="first"), timeout=WAIT_S)
    small.gate.wait_entered()
    code, _ = status(lambda: small.stub.EmbedQuery(EmbedQueryRequest(text="late"), timeout=0.05))
    assert code == grpc.StatusCode.DEADLINE_EXCEEDED
    small.gate.open.set()
    first.result()
    assert alive(small)
    assert len(small.gate.ran) == 2


def test_a_full_queue_says_so_and_empties_again(small: Sidecar) -> None:
    small.gate.open.clear()
    call = small.stub.EmbedQuery.future
    asked = [call(EmbedQueryRequest(text="running"), timeout=WAIT_S)]
    small.gate.wait_entered()
    asked += [call(EmbedQueryRequest(text="waiting"), timeout=WAIT_S) for _ in range(2)]
    poll(lambda: small.stub.Info(InfoRequest(), timeout=WAIT_S).queued_queries == 2)
    code, told = status(
        lambda: small.stub.EmbedQuery(EmbedQueryRequest(text="too many"), timeout=WAIT_S)
    )
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
    assert told == "2 of 2 places of the query queue are taken"
    small.gate.open.set()
    assert [len(future.result().embedding.vector) for future in asked] == [32, 32, 32]


def test_what_a_client_left_behind_is_not_run(small: Sidecar) -> None:
    small.gate.open.clear()
    request = EmbedPassagesRequest(texts=["one", "two", "three", "four"])
    gone = small.stub.EmbedPassages.future(request, timeout=WAIT_S)
    small.gate.wait_entered()
    gone.cancel()
    # The same room is free again, though nothing has run: the queue forgot those left behind.
    again = EmbedPassagesRequest(texts=["five", "six", "seven", "eight"])

    def taken() -> bool:
        try:
            small.stub.EmbedPassages(again, timeout=0.05)
        except grpc.RpcError as error:
            return bool(error.code() == grpc.StatusCode.DEADLINE_EXCEEDED)
        return True

    poll(taken)
    small.gate.open.set()
    assert alive(small)
    poll(lambda: small.stub.Info(InfoRequest(), timeout=WAIT_S).queued_passages == 0)
    assert len(small.gate.ran) == 2  # the passage in progress, and the query that asked


def test_too_many_splits_at_once(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, go = threading.Event(), threading.Event()
    split = service.split  # type: ignore[attr-defined]

    def slow(*text: Any, **limits: Any) -> Any:
        entered.set()
        assert go.wait(WAIT_S)
        return split(*text, **limits)

    monkeypatch.setattr(service, "split", slow)
    with Sidecar(tiny, limits=Limits(splits=1)) as server:
        first = server.stub.Split.future(SplitRequest(texts=["x"]), timeout=WAIT_S)
        assert entered.wait(WAIT_S)
        with pytest.raises(grpc.RpcError) as refused:
            server.stub.Split(SplitRequest(texts=["x"]), timeout=WAIT_S)
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        go.set()
        assert first.result().texts[0].spans
        assert server.stub.Split(SplitRequest(texts=["x"]), timeout=WAIT_S).texts[0].spans


def test_texts_that_wait_to_be_tokenized_are_bounded(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go = threading.Event(), threading.Event()
    with Sidecar(tiny, limits=Limits(tokenizing=1)) as server:
        passage = server.model.tokenizer.passage

        def slow(text: str) -> Tokens:
            entered.set()
            assert go.wait(WAIT_S)
            return passage(text)

        monkeypatch.setattr(server.model.tokenizer, "passage", slow)
        request = EmbedPassagesRequest(texts=["words"])
        first = server.stub.EmbedPassages.future(request, timeout=WAIT_S)
        assert entered.wait(WAIT_S)
        code, _ = status(partial(server.stub.EmbedPassages, request, timeout=WAIT_S))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert alive(server)  # queries go on
        go.set()
        assert len(first.result().embeddings) == 1


def test_a_split_over_its_limit(tiny: Path) -> None:
    with Sidecar(tiny, limits=Limits(split_chars=100)) as server:
        request = SplitRequest(texts=["x" * 60, "y" * 41])
        code, told = status(lambda: server.stub.Split(request, timeout=WAIT_S))
        assert code == grpc.StatusCode.INVALID_ARGUMENT
        assert told == "101 characters are over the limit of 100"


def test_a_run_that_fails_is_internal_and_the_next_one_works(small: Sidecar) -> None:
    small.gate.open.clear()
    embed = small.gate._embed

    def broken(batch: object) -> list[bytes]:
        small.gate._embed = embed
        raise MemoryError

    small.gate._embed = broken
    small.gate.open.set()
    code, told = status(lambda: small.stub.EmbedQuery(EmbedQueryRequest(text="x"), timeout=WAIT_S))
    assert (code, told) == (grpc.StatusCode.INTERNAL, "a run failed: MemoryError")
    assert alive(small)
