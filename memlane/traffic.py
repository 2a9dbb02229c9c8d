"""What went over the wire."""

from __future__ import annotations

import dataclasses

import httpx


@dataclasses.dataclass(slots=True)
class Traffic:
    """Bytes as HTTP/1.1 writes them, without what TLS adds; every attempt counts.

    Attributes:
        requests: how many were sent.
        bytes_sent: request lines, headers and bodies.
        bytes_received: headers and bodies of answers.
    """

    requests: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0

    def sent(self, request: httpx.Request) -> None:
        """Count a request whose body is in memory."""
        line = len(request.method) + len(request.url.raw_path) + len("  HTTP/1.1\r\n\r\n")
        self.requests += 1
        self.bytes_sent += line + _size(request.headers) + len(request.content)

    def received(self, answer: httpx.Response, body: bytes) -> None:
        """Count an answer."""
        self.bytes_received += _size(answer.headers) + len(body)


def _size(headers: httpx.Headers) -> int:
    return sum(len(name) + len(value) + len(": \r\n") for name, value in headers.raw)
