"""Reading requests: bodies within their limits and in their time, query strings without guesses."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Final
from urllib.parse import parse_qsl

import anyio
import orjson
from starlette.requests import Request

from service.errors import InvalidRequest, TooLarge
from service.http.fields import Fields, shown
from service.http.problems import SlowRequest, UnsupportedEncoding
from service.settings import Settings

MOST_PARAMETERS: Final = 64
_BAD_ESCAPE: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


async def body_chunks(request: Request, *, limit: str, settings: Settings) -> AsyncIterator[bytes]:
    """The body as it arrives.

    Args:
        request: whose body.
        limit: the setting that bounds it.
        settings: where that setting is, and the time it may take.

    Raises:
        UnsupportedEncoding: it is compressed.
        TooLarge: it is longer than the limit.
        SlowRequest: it takes too long.
    """
    if request.headers.get("content-encoding", "identity").strip().lower() != "identity":
        raise UnsupportedEncoding("the body has a Content-Encoding")
    most, seen = getattr(settings, limit), 0
    deadline = anyio.current_time() + settings.request_ms / 1_000
    stream = request.stream()
    while True:
        try:
            with anyio.fail_after(max(0.0, deadline - anyio.current_time())):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise SlowRequest(f"the body took longer than {settings.request_ms} ms") from None
        if chunk is None:
            return
        seen += len(chunk)
        if seen > most:
            yield chunk[: len(chunk) - (seen - most)]
            raise TooLarge(
                f"the body is longer than {most} bytes", limit=limit, hint="Send less at a time."
            )
        yield chunk


async def read_fields(request: Request, settings: Settings) -> Fields:
    """The body as a JSON object.

    Raises:
        InvalidRequest: it is not JSON or not an object.
        TooLarge: it is longer than `small_request_bytes`.
        SlowRequest: it takes too long.
    """
    body = bytearray()
    async for chunk in body_chunks(request, limit="small_request_bytes", settings=settings):
        body += chunk
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise InvalidRequest(
            f"the body is not JSON at byte {error.pos + 1}", hint="Send one JSON object in UTF-8."
        ) from None
    if not isinstance(value, dict):
        raise InvalidRequest("the body is not a JSON object")
    return Fields(value)


def query_fields(request: Request, known: Mapping[str, Callable[[str], object]]) -> Fields:
    """The query string as fields; a repeated one becomes a list, a comma-free way to give many.

    Args:
        request: whose query string.
        known: by name, what turns the text of one value into a field's value. Those that give a
            tuple are joined over repeats; others may come once.

    Raises:
        InvalidRequest: it is malformed, or a name is unknown or repeated.
    """
    raw: bytes = request.scope["query_string"]
    if _BAD_ESCAPE.search(raw):
        raise InvalidRequest("the query string has a `%` that is not followed by two hex digits")
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MOST_PARAMETERS,
        )
    except ValueError:  # UnicodeError is one
        raise InvalidRequest(
            "the query string is not percent-encoded UTF-8, or has too many parameters"
        ) from None
    values: dict[str, object] = {}
    for name, text in pairs:
        if name not in known:
            raise InvalidRequest(
                f"unknown parameter {shown(name)}",
                hint=f"The parameters are {', '.join(known) or 'none'}.",
            )
        try:
            value = known[name](text)
        except ValueError:
            raise InvalidRequest(f"`{name}` cannot be read") from None
        if name in values:
            earlier = values[name]
            if not isinstance(value, list) or not isinstance(earlier, list):
                raise InvalidRequest(f"`{name}` is given twice")
            value = earlier + value
        values[name] = value
    return Fields(values)
