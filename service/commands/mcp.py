"""`memlane mcp`: the tools of a hosted memory for clients that speak on a process's pipes.

Each line on stdin is a message of the protocol; it is sent to the service as it stands, and what
comes back is a line on stdout. The service keeps no session, so neither does this: only the
protocol's version is noted, because HTTP wants it in a header
(modelcontextprotocol.io/specification, "Transports").
"""

from __future__ import annotations

import base64
import re
import sys
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, Final

import click
import httpx
import orjson

from service.commands.console import (
    connection,
    data_option,
    errors_shown,
    refusal,
    say,
    service_options,
)

CALLS: Final = 8
"""Messages sent at once."""
WAITING: Final = 64
"""Messages that wait for that; more are not read before."""
TIMEOUT_S: Final = 60.0
MESSAGE_BYTES: Final = 1024 * 1024
ACCEPT: Final = "application/json, text/event-stream"
VERSION_FIELD: Final = "io.modelcontextprotocol/protocolVersion"
NAMED_BY: Final = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""Methods whose object goes into a header too, and the parameter that names it."""

PARSE_ERROR: Final = -32_700
UNREACHABLE: Final = -32_001
REFUSED: Final = -32_002
_PLAIN: Final = re.compile(r"[!-~](?:[ -~]*[!-~])?")


@click.command()
@service_options
@data_option
def mcp(url: str | None, key: str | None, data: Path) -> None:
    """Speak MCP on stdin and stdout, answered by the service at --url."""
    with errors_shown():
        url, key = connection(url, key, data, want="reader")
        say(f"memlane: MCP on stdin and stdout, answered by {url}")
        with Proxy(f"{url}/mcp", key, sys.stdout.buffer) as proxy:
            proxy.run(sys.stdin.buffer)


class Proxy:
    """Passes messages on. Several are under way at once; each answer is written whole.

    Args:
        url: the service's `/mcp`.
        key: a tenant's key.
        out: where answers go.
        transport: another way than the network, for tests.
    """

    def __init__(
        self, url: str, key: str, out: BinaryIO, transport: httpx.BaseTransport | None = None
    ) -> None:
        self._url = url
        self._http = httpx.Client(
            headers={"authorization": f"Bearer {key}", "accept": ACCEPT},
            timeout=TIMEOUT_S,
            transport=transport,
        )
        self._out = out
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(CALLS + WAITING)
        self._version: str | None = None

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def run(self, lines: BinaryIO) -> None:
        """Pass on every line until there are no more, and wait for the answers."""
        with ThreadPoolExecutor(CALLS, "mcp") as pool:
            while line := lines.readline(MESSAGE_BYTES):
                if not line.strip():
                    continue
                self._places.acquire()
                pool.submit(self._pass, line).add_done_callback(self._over)

    def _over(self, done: Future[None]) -> None:
        self._places.release()
        if (error := done.exception()) is not None:
            say(f"memlane: a message was lost ({type(error).__name__})")

    def _pass(self, line: bytes) -> None:
        try:
            message = orjson.loads(line)
        except orjson.JSONDecodeError:
            self._write(_error(None, PARSE_ERROR, "the line is not JSON, or too long"))
            return
        if not isinstance(message, dict):
            self._write(_error(None, PARSE_ERROR, "the line is not one JSON object"))
            return
        answer = self._ask(message, line)
        if answer is not None and "id" in message:
            self._write(answer)

    def _ask(self, message: dict[str, Any], line: bytes) -> dict[str, Any] | None:
        """The answer; None when there is none to give."""
        number = message.get("id")
        try:
            answer = self._http.post(self._url, content=line, headers=self._headers(message))
        except httpx.HTTPError as error:
            told = f"{self._url} does not answer ({type(error).__name__})"
            return _error(number, UNREACHABLE, told)
        try:
            body = answer.json() if answer.content else None
        except ValueError:
            body = None
        if isinstance(body, dict) and "jsonrpc" in body:
            self._note_version(message, body)
            return body
        if answer.is_error and isinstance(body, dict):
            refused = refusal(answer)
            return _error(number, REFUSED, f"{refused.detail}. {refused.hint or ''}".strip())
        return _error(number, REFUSED, f"{answer.status_code}: the answer is no message")

    def _headers(self, message: dict[str, Any]) -> dict[str, str]:
        method = message.get("method")
        headers = {"content-type": "application/json"}
        parameters = message.get("params")
        parameters = parameters if isinstance(parameters, dict) else {}
        about = parameters.get("_meta")
        named = about.get(VERSION_FIELD) if isinstance(about, dict) else None
        version = named if isinstance(named, str) else self._version
        if version is not None and method != "initialize":
            headers["mcp-protocol-version"] = _header(version)
        if isinstance(method, str):
            headers["mcp-method"] = _header(method)
            name = parameters.get(NAMED_BY.get(method, ""))
            if isinstance(name, str):
                headers["mcp-name"] = _header(name)
        return headers

    def _note_version(self, message: dict[str, Any], body: dict[str, Any]) -> None:
        """What both sides agreed on at the start; later requests of such a client need it."""
        result = body.get("result")
        if message.get("method") == "initialize" and isinstance(result, dict):
            version = result.get("protocolVersion")
            self._version = version if isinstance(version, str) else None

    def _write(self, message: dict[str, Any]) -> None:
        with self._lock:
            self._out.write(orjson.dumps(message) + b"\n")
            self._out.flush()


def _error(number: object, code: int, message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}


def _header(text: str) -> str:
    """A text as the value of a header: as it is, or in the protocol's base64 form."""
    if _PLAIN.fullmatch(text) and not text.startswith("=?base64?"):
        return text
    return f"=?base64?{base64.b64encode(text.encode()).decode()}?="
