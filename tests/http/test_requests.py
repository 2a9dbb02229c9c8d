import itertools
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request

from service.errors import TooLarge
from service.http.batch import Line, LineSplitter
from service.http.problems import SlowRequest
from service.http.requests import body_chunks
from service.settings import Settings


def request(receive: Callable[[], Awaitable[Any]]) -> Request:
    return Request({"type": "http", "headers": [], "method": "POST"}, receive)


def collect(receive: Callable[[], Awaitable[Any]], **limits: int) -> tuple[bytes, type | None]:
    seen = bytearray()

    async def read() -> type | None:
        try:
            async for chunk in body_chunks(
                request(receive), limit="request_bytes", settings=Settings(**limits)
            ):
                seen.extend(chunk)
        except (SlowRequest, TooLarge) as error:
            return type(error)
        return None

    error = anyio.run(read)
    return bytes(seen), error


def test_a_body_that_stops_arriving_is_given_up() -> None:
    sent = iter([{"type": "http.request", "body": b"abc", "more_body": True}])

    async def receive() -> Any:
        try:
            return next(sent)
        except StopIteration:
            await anyio.sleep_forever()

    assert collect(receive, request_ms=20) == (b"abc", SlowRequest)


def test_a_body_over_its_limit_is_read_to_the_limit_and_no_further() -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"0123456789", "more_body": True}

    assert collect(receive, request_bytes=25) == (b"0123456789" * 2 + b"01234", TooLarge)


def test_a_body_of_exactly_the_limit_is_taken() -> None:
    async def receive() -> Any:
        return {"type": "http.request", "body": b"01234", "more_body": False}

    assert collect(receive, request_bytes=5) == (b"01234", None)


@given(st.lists(st.binary(max_size=12), max_size=20), st.lists(st.integers(0, 300), max_size=20))
def test_lines_are_the_same_however_the_body_is_cut(parts: list[bytes], cuts: list[int]) -> None:
    body = b"\n".join(parts)
    expected = [
        Line(number, part if len(part) <= 8 else None)
        for number, part in enumerate(body.split(b"\n"), start=1)
    ]
    if not body.split(b"\n")[-1]:
        expected.pop()
    edges = [0, *sorted(cut for cut in cuts if cut < len(body)), len(body)]
    splitter = LineSplitter(line_bytes=8)
    found: list[Line] = []
    for begin, end in itertools.pairwise(edges):
        found += splitter.feed(body[begin:end])
        assert len(splitter._held) <= 8
    assert [*found, *splitter.end()] == expected


@pytest.mark.parametrize("chunk", [b"x" * 1_000_000, b"x"])
def test_a_line_without_end_holds_no_memory(chunk: bytes) -> None:
    splitter = LineSplitter(line_bytes=1_000)
    for _ in range(2_000):
        assert list(splitter.feed(chunk)) == []
    assert len(splitter._held) == 0
    assert list(splitter.end()) == [Line(1, None)]
