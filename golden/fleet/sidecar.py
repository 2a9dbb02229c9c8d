"""A real sidecar of a fleet, that can be hurt; and a tap that sees what is embedded through it."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc

from embedder.embed_pb2_grpc import (
    EmbedderServicer,
    EmbedderStub,
    add_EmbedderServicer_to_server,
)
from golden.fleet.process import Tree, free_ports
from service.errors import SetupError, Unavailable
from service.semantic.sidecar import Sidecar, SidecarError

START_S: Final = 120.0
CALL_MS: Final = 60_000
POLL_S: Final = 0.02
TAP_THREADS: Final = 8
TAP_S: Final = 60.0
TRACE_HEADERS: Final = ("traceparent", "tracestate")


class SidecarNode:
    """A sidecar process.

    Attributes:
        address: `host:port`, the same after each start.
        tree: the process.
    """

    def __init__(
        self, model: str, folder: Path, *, environ: Mapping[str, str] | None = None
    ) -> None:
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.tree = Tree(
            "sidecar",
            [sys.executable, "-m", "embedder", "--model", model, "--address", self.address],
            log=folder / "sidecar.log",
            environ=environ or {},
        )

    def start(self) -> float:
        """Start it; seconds until it answered.

        Raises:
            SetupError: it ended.
            Unavailable: it does not answer.
        """
        began = time.monotonic()
        self.tree.start()
        with self.client() as client:
            while time.monotonic() - began < START_S:
                if not self.tree.running:
                    raise SetupError(
                        f"the sidecar ended: {self.tree.told()}",
                        hint="`memlane model build NAME` makes a model.",
                    )
                try:
                    client.info()
                except SidecarError:
                    time.sleep(POLL_S)
                else:
                    return time.monotonic() - began
        raise Unavailable(f"the sidecar did not answer: {self.tree.told()}")

    @contextmanager
    def client(self) -> Iterator[Sidecar]:
        """A client of its own."""
        client = Sidecar(self.address, timeout_ms=CALL_MS)
        try:
            yield client
        finally:
            client.close()


class Tap(EmbedderServicer):
    """Stands between a service and a sidecar, and counts how often each passage was embedded.

    Attributes:
        address: where the service finds it.
        embedded: how often each passage came back, by its hash.
        closed: whether passages are refused.
    """

    def __init__(self, behind: str) -> None:
        (port,) = free_ports(1)
        self.address = f"127.0.0.1:{port}"
        self.embedded: Counter[bytes] = Counter()
        self.closed = False
        self._lock = threading.Lock()
        self._channel = grpc.insecure_channel(behind)
        self._stub: Any = EmbedderStub(self._channel)
        self._server = grpc.server(ThreadPoolExecutor(TAP_THREADS))
        add_EmbedderServicer_to_server(self, self._server)
        self._server.add_insecure_port(self.address)

    def __enter__(self) -> Tap:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop(0)
        self._channel.close()

    def EmbedQuery(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Hand it on."""
        return self._handed(self._stub.EmbedQuery, request, context)

    def EmbedPassages(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Hand it on and count what came back."""
        if self.closed:
            context.abort(grpc.StatusCode.UNAVAILABLE, "closed")
        reply = self._handed(self._stub.EmbedPassages, request, context)
        with self._lock:
            self.embedded.update(
                hashlib.blake2b(text.encode(), digest_size=12).digest() for text in request.texts
            )
        return reply

    def Split(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Hand it on."""
        return self._handed(self._stub.Split, request, context)

    def Info(self, request: Any, context: Any) -> Any:  # noqa: N802
        """Hand it on."""
        return self._handed(self._stub.Info, request, context)

    def _handed(self, method: Any, request: Any, context: Any) -> Any:
        try:
            return method(
                request,
                timeout=min(context.time_remaining() or TAP_S, TAP_S),
                metadata=[
                    pair for pair in context.invocation_metadata() if pair[0] in TRACE_HEADERS
                ],
            )
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
