"""The tools of `/mcp`: what they are called, what they take, and that they answer in Markdown.

Every answer is bounded in tokens, refusals too; a call that cannot be read says what to correct, so
that the model that made it can.
"""

from __future__ import annotations

import logging
import time
import traceback
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, Final

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    TextContent,
    Tool,
    ToolAnnotations,
)
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from service.errors import InvalidRequest, MemlaneError
from service.http import get as documents
from service.http import markdown
from service.http import search as searching
from service.http.answers import index_block
from service.http.fields import Fields
from service.http.layers import LIMIT_LEAST
from service.http.mcp import STATE_TENANT
from service.http.middleware import STATE_SPAN, request_id
from service.http.node import Node, Opened, node_of
from service.http.snapshots import read_file
from service.http.timeline import look
from service.tenancy.records import Tenant

INSTRUCTIONS: Final = (
    "Memory of past work. search finds, timeline shows what stood around a hit, get reads whole"
    " documents. Rows say what reading costs; get only what you need."
)
_log = logging.getLogger("memlane.http")
_TEXT: Final = {"type": "string"}
_COUNT: Final = {"type": "integer"}
_TOKENS: Final = {"type": "integer", "description": "Most tokens of the answer"}
_TIME: Final = {"type": "string", "description": "Date or ISO time"}
_READS: Final = ToolAnnotations(read_only_hint=True)

Call = Callable[[Node, Tenant, Fields, Request], Awaitable[str]]


def _tool(name: str, about: str, required: tuple[str, ...], **properties: Any) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return Tool(name=name, description=about, input_schema=schema, annotations=_READS)


TOOLS: Final = (
    _tool(
        "search",
        'Search the memory. Compact rows, best first. q: words, "a phrase", -word; any language.',
        ("q",),
        q=_TEXT,
        limit={**_COUNT, "description": "Default 10"},
        kinds={"type": "array", "items": _TEXT},
        updated_after=_TIME,
        updated_before=_TIME,
        cursor={"type": "string", "description": "From the page before"},
        limit_tokens=_TOKENS,
    ),
    _tool(
        "timeline",
        "What was changed before and after a document.",
        ("kind", "ref"),
        kind=_TEXT,
        ref=_TEXT,
        before={**_COUNT, "description": "Default 5"},
        after={**_COUNT, "description": "Default 5"},
        within={"enum": ["kind", "all"]},
        limit_tokens=_TOKENS,
    ),
    _tool(
        "get",
        "Read whole documents. What does not fit is cut, and said.",
        ("refs",),
        refs={
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"kind": _TEXT, "ref": _TEXT},
                "required": ["kind", "ref"],
            },
        },
        limit_tokens=_TOKENS,
    ),
    _tool("status", "What the memory holds, by kind, and how fresh it is.", ()),
)


async def serve(scope: Scope, receive: Receive, send: Send, *, most_bytes: int) -> None:
    """Serve one request with a transport of its own: no session outlives it.

    Args:
        scope: the request; its state has the tenant.
        receive: its body.
        send: takes the answer.
        most_bytes: longest body.
    """
    manager = StreamableHTTPSessionManager(
        _SERVER, json_response=True, stateless=True, max_request_body_size=most_bytes
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)


async def _list_tools(
    _: ServerRequestContext[Any], __: PaginatedRequestParams | None
) -> ListToolsResult:
    return ListToolsResult(tools=list(TOOLS))


async def _call_tool(
    context: ServerRequestContext[Any], params: CallToolRequestParams
) -> CallToolResult:
    request = context.request
    assert isinstance(request, Request), "the transport is HTTP"
    node, tenant = node_of(request), getattr(request.state, STATE_TENANT)
    failed = True
    try:
        call = _CALLS.get(params.name)
        if call is None:
            raise InvalidRequest("there is no such tool", hint=f"There are {', '.join(_CALLS)}.")
        text = await call(node, tenant, Fields(params.arguments or {}), request)
        failed = False
    except MemlaneError as error:
        text = f"{error.detail}. {error.hint or ''}".strip()
    except (
        Exception
    ) as error:  # the protocol's package would tell the caller, and traces, its words
        frames = "".join(traceback.format_tb(error.__traceback__))
        _log.error("a tool failed with %s\n%s", type(error).__qualname__, frames.rstrip())
        text = "an unexpected error, which was logged"
    return CallToolResult(content=[TextContent(type="text", text=text)], is_error=failed)


async def _search(node: Node, tenant: Tenant, fields: Fields, request: Request) -> str:
    limit_tokens = _limit(node, fields)
    # The protocol's package calls from a task of its own, which knows no current span.
    with node.telemetry.span("search", getattr(request.state, STATE_SPAN)):
        asked = searching.asked_by(fields, node.settings, layer="compact")
        found = await searching.find(node, tenant, asked, time.perf_counter(), request_id(request))
    reply = searching.reply_of(asked, found, as_markdown=True)
    return reply.text(reply.markdown, limit_tokens)


async def _timeline(node: Node, tenant: Tenant, fields: Fields, _: Request) -> str:
    limit_tokens = _limit(node, fields)
    reply = await look(node, tenant, fields)
    return reply.text(reply.markdown, limit_tokens)


async def _get(node: Node, tenant: Tenant, fields: Fields, _: Request) -> str:
    limit_tokens = _limit(node, fields)
    reply = await documents.read(node, tenant, fields, limit_tokens, as_markdown=True)
    return reply.text(reply.markdown, limit_tokens)


async def _status(node: Node, tenant: Tenant, fields: Fields, _: Request) -> str:
    fields.done()

    def read(opened: Opened) -> dict[str, Any]:
        return {**opened.reader.status(), "index": index_block(opened)}

    return markdown.status({"tenant": tenant.name, **await read_file(node, tenant, read)})


def _limit(node: Node, fields: Fields) -> int:
    settings = node.settings
    return fields.integer(
        "limit_tokens", settings.mcp_tokens, least=LIMIT_LEAST, most=settings.mcp_tokens_most
    )


_CALLS: Final[dict[str, Call]] = {
    "search": _search,
    "timeline": _timeline,
    "get": _get,
    "status": _status,
}
_SERVER: Final[Server[Any]] = Server(
    "memlane",
    version=version("memlane"),
    instructions=INSTRUCTIONS,
    on_list_tools=_list_tools,
    on_call_tool=_call_tool,
)
