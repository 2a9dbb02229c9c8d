"""`/v1/analyze`: how a text is cut into terms, and how it would be read as a query."""

from __future__ import annotations

import dataclasses
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from service.http.answers import json_answer
from service.http.auth import authenticate
from service.http.node import node_of
from service.http.requests import read_fields
from service.text import TOKENIZER_VERSION, parse_query, tokenize


async def analyze(request: Request) -> Response:
    """`POST /v1/analyze`."""
    node = node_of(request)
    (await authenticate(node, request)).require("search")
    fields = await read_fields(request, node.settings)
    text = fields.text("text", most_chars=node.settings.small_request_bytes)
    fields.done()
    return json_answer(await node.searches.run(partial(_analyze, text, node.settings.query_chars)))


def _analyze(text: str, query_chars: int) -> dict[str, object]:
    """A text too long for a query is not read as one."""
    streams = dataclasses.asdict(tokenize(text))
    query = dataclasses.asdict(parse_query(text)) if len(text) <= query_chars else None
    return {"tokenizer": TOKENIZER_VERSION, "streams": streams, "query": query}
