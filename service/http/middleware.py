"""What every request goes through: an id, timing, one log line, and no exception gets out."""

from __future__ import annotations

import json
import logging
import re
import time
import traceback
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import anyio
from opentelemetry.trace import (
    INVALID_SPAN,
    Span,
    StatusCode,
    format_span_id,
    format_trace_id,
    get_current_span,
)
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.errors import MemlaneError
from service.http.problems import problem_response

access_log = logging.getLogger("memlane.access")
error_log = logging.getLogger("memlane.http")

LINGER_MS: Final = 2_000
LINGER_BYTES: Final = 64 * 1024 * 1024
"""How long and how far a body nobody wanted is read on, so that its sender sees the answer:
closing a connection with unread bytes makes the kernel reset it, which loses the answer
(RFC 9112, section 9.6)."""

_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,64}")
_TOKEN: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")
STATE_ID: Final = "request_id"
STATE_PHASES: Final = "phases"
STATE_SPAN: Final = "span"
UNTRACED: Final = ("/healthz", "/readyz")
TRACE_HEADERS: Final = (b"traceparent", b"tracestate")
"""W3C Trace Context. Baggage is not taken on: it could carry anything to the collector."""
SERVER_FAULT: Final = 500


class Envelope:
    """The outermost of our layers, plain ASGI.

    A request's id is the caller's `X-Request-Id` when that is 1 to 64 of `A-Za-z0-9._-`, else a
    fresh one; handlers put milliseconds by phase into `scope["state"]["phases"]` for
    `Server-Timing`.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send)
        with _span(scope) as span:
            try:
                await self._serve(scope, exchange)
            finally:
                exchange.describe(span)
                exchange.log()
        await exchange.linger()

    async def _serve(self, scope: Scope, exchange: _Exchange) -> None:
        try:
            await self._app(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            exchange.status = 499  # what proxies log for a caller that left
        except Exception as error:  # the last resort: everything else has its own class
            _log_crash(error, exchange.request_id)
            if not exchange.status:
                sorry = MemlaneError(
                    "an unexpected error, which was logged",
                    hint="Report the request id to the operator.",
                )
                answer = problem_response(sorry, exchange.request_id)
                await answer(scope, exchange.receive, exchange.send)


class _Exchange:
    """One request and its answer."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        self.status = 0
        self._receive = receive
        self._send = send
        self._begun = time.perf_counter()
        self._received_all = False
        self._sent_bytes = 0
        self.request_id = _request_id(scope)
        state = scope.setdefault("state", {})
        state[STATE_ID] = self.request_id
        state[STATE_PHASES] = {}
        state[STATE_SPAN] = INVALID_SPAN

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] != "http.request" or not message.get("more_body", False):
            self._received_all = True
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers["x-request-id"] = self.request_id
            headers["server-timing"] = _server_timing(
                self._elapsed_ms(), self.scope["state"][STATE_PHASES]
            )
        elif message["type"] == "http.response.body":
            self._sent_bytes += len(message.get("body", b""))
        await self._send(message)

    async def linger(self) -> None:
        """Read on, within bounds, what is left of a body after its answer was given."""
        seen = 0
        with anyio.move_on_after(LINGER_MS / 1_000):
            while not self._received_all and seen < LINGER_BYTES:
                message = await self.receive()
                seen += len(message.get("body", b""))

    def describe(self, span: Span) -> None:
        """Put what is known of the exchange on its span, as the HTTP conventions name it.

        The route only: the address itself may hold what is a tenant's own.
        """
        if not span.is_recording():
            return
        method, route = self.scope["method"], self._route()
        span.update_name(f"{method} {route}" if route else method)
        span.set_attributes(
            {
                "http.request.method": method,
                "http.response.status_code": self.status,
                "memlane.request_id": self.request_id,
            }
        )
        if route:
            span.set_attribute("http.route", route)
        if self.status >= SERVER_FAULT:
            span.set_status(StatusCode.ERROR)

    def log(self) -> None:
        if not access_log.isEnabledFor(logging.INFO):
            return
        line: dict[str, object] = {
            "request_id": self.request_id,
            "method": self.scope["method"],
            "route": self._route(),
            "status": self.status,
            "bytes": self._sent_bytes,
            "took_ms": round(self._elapsed_ms(), 3),
        }
        context = get_current_span().get_span_context()
        if context.is_valid:
            line |= {
                "trace_id": format_trace_id(context.trace_id),
                "span_id": format_span_id(context.span_id),
            }
        access_log.info("%s", json.dumps(line))

    def _route(self) -> str | None:
        path: str | None = getattr(self.scope.get("route"), "path", None)
        return path

    def _elapsed_ms(self) -> float:
        return (time.perf_counter() - self._begun) * 1_000


@contextmanager
def _span(scope: Scope) -> Iterator[Span]:
    """The request's span; there is none for probes, and none before the node is up."""
    node = scope["state"].get("node")
    if node is None or scope["path"] in UNTRACED:
        yield INVALID_SPAN
        return
    headers = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in TRACE_HEADERS
    }
    with node.telemetry.request_span(headers) as span:
        scope["state"][STATE_SPAN] = span
        yield span


def request_id(request: Request) -> str:
    """The id of a request, as its answer says it."""
    found: str = getattr(request.state, STATE_ID)
    return found


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id":
            text = value.decode("latin-1")
            if _REQUEST_ID.fullmatch(text):
                return str(text)
    return uuid.uuid4().hex


def _server_timing(total_ms: float, phases: Mapping[str, float]) -> str:
    parts = [f"total;dur={total_ms:.2f}"]
    parts += [
        f"{name};dur={duration_ms:.2f}"
        for name, duration_ms in phases.items()
        if name != "total" and _TOKEN.fullmatch(name)
    ]
    return ", ".join(parts)


def _log_crash(error: Exception, request_id: str) -> None:
    """Log where it happened. Not the message: it may quote a query or a document."""
    frames = "".join(traceback.format_tb(error.__traceback__))
    error_log.error(
        "request %s failed with %s\n%s", request_id, type(error).__qualname__, frames.rstrip()
    )
