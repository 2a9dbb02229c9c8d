"""What a writer's port answers while another writer owns the shard: not ready, and why.

A few lines of the standard library in the supervising process, so that nothing has to start or end
for it when the shard is taken over.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socket import socket
from typing import Any

import orjson

from service.errors import SetupError, Unavailable
from service.http.problems import problem_response

#: How long one caller may take, and how many are answered at once; more are hung up on.
CALLER_S = 5.0
CALLERS = 32


class StandbyServer:
    """Answers on a port until closed."""

    def __init__(self, host: str, port: int, health: Callable[[], dict[str, Any]]) -> None:
        """Listen, and answer from a thread.

        Args:
            host: the address.
            port: the port.
            health: what `/readyz` says; it holds `reasons`.

        Raises:
            SetupError: the port is taken.
        """
        try:
            self._server = _Server((host, port), _Handler)
        except OSError as error:
            raise SetupError(f"cannot listen on {host} port {port}: {error.strerror}") from error
        self._server.health = health
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        """Give the port free."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 2 * CALLERS
    health: Callable[[], dict[str, Any]]

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self._places = threading.BoundedSemaphore(CALLERS)
        super().__init__(address, handler)

    def process_request(self, request: socket | tuple[bytes, socket], address: Any) -> None:
        if self._places.acquire(blocking=False):
            super().process_request(request, address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller who hung up is none of our business."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = CALLER_S
    server_version = "memlane"
    sys_version = ""

    def __getattr__(self, name: str) -> Callable[[], None]:
        """`do_<METHOD>` of every method is the same."""
        if not name.startswith("do_"):
            raise AttributeError(name)
        return self._answer

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        if path == "/healthz":
            self._send(HTTPStatus.OK, {"status": "ok", "role": "writer"})
        elif path == "/readyz":
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, self.server.health())
        else:
            reasons = "; ".join(self.server.health()["reasons"])
            self._problem(Unavailable(f"this writer is not ready: {reasons}", retry_after_s=2))

    def _problem(self, error: Unavailable) -> None:
        answer = problem_response(error, secrets.token_hex(8))
        self._bytes(HTTPStatus(answer.status_code), bytes(answer.body), dict(answer.headers))

    def _send(self, status: HTTPStatus, body: dict[str, Any]) -> None:
        self._bytes(status, orjson.dumps(body), {"content-type": "application/json"})

    def _bytes(self, status: HTTPStatus, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in (headers | {"content-length": str(len(body))}).items():
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        self.close_connection = True

    def log_message(self, *_: Any) -> None:
        """Nothing: addresses and paths stay out of logs."""
