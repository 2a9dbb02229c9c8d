"""`/mcp`: the same layers as tools of the Model Context Protocol, for who has its package.

The package is imported with the first request, so that a worker nobody asks this way does not
carry it. Nothing is kept between requests: any worker of any node can answer the next one.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from service.errors import NotFound
from service.http.auth import tenant_with
from service.http.node import node_of

STATE_TENANT = "mcp_tenant"


class Server(Protocol):
    """Speaks the protocol; see `service.http.mcp_server`."""

    async def __call__(
        self, scope: Scope, receive: Receive, send: Send, *, most_bytes: int
    ) -> None:
        """Serve one request of `request.state.mcp_tenant`."""


class Endpoint:
    """`POST /mcp`, as plain ASGI: the protocol's package writes the answers itself."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request.

        Raises:
            Unauthorized, Forbidden: see `tenant_with`.
            NotFound: the package is not installed here.
        """
        request = Request(scope, receive, send)
        node = node_of(request)
        tenant = await tenant_with(node, request, "search")
        setattr(request.state, STATE_TENANT, tenant)
        server = await run_sync(_server)  # in a thread: the first time takes a good half second
        await server(scope, receive, send, most_bytes=node.settings.small_request_bytes)


@cache
def _server() -> Server:
    try:
        from service.http.mcp_server import serve
    except ModuleNotFoundError as error:
        raise NotFound(
            "this node does not speak MCP", hint="Install it with `pip install 'memlane[mcp]'`."
        ) from error
    return serve
