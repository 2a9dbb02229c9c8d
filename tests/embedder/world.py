"""A small world: the tiny model, a real server in a thread, a model that waits when told to."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from embedder.embed_pb2_grpc import EmbedderStub
from embedder.limits import Limits
from embedder.model import Model
from embedder.server import Server, Serving
from embedder.tokens import Tokens

WAIT_S = 20.0
Result = TypeVar("Result")


class Gate:
    """Stands before a model's runs: counts them, holds them while closed."""

    def __init__(self, model: Model) -> None:
        self._embed = model.embed
        self.open = threading.Event()
        self.open.set()
        self.entered = threading.Semaphore(0)
        self.ran: list[int] = []

    def __call__(self, batch: Sequence[Tokens]) -> list[bytes]:
        self.entered.release()
        assert self.open.wait(WAIT_S)
        self.ran.extend(len(tokens) for tokens in batch)
        return self._embed(batch)

    def wait_entered(self) -> None:
        assert self.entered.acquire(timeout=WAIT_S)


class Sidecar:
    """A real gRPC server over a folder, on a free port."""

    def __init__(
        self,
        folder: Path,
        *,
        limits: Limits | None = None,
        reflection: bool = False,
        lanes: int = 1,
    ) -> None:
        self.model = Model(folder)
        self.gate = Gate(self.model)
        self.model.embed = self.gate  # type: ignore[method-assign]
        self._limits, self._reflection, self._lanes = limits, reflection, lanes
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._stopped = False

    def __enter__(self) -> Sidecar:
        self._thread.start()
        self.server = self._run(self._start())
        self.address = f"127.0.0.1:{self.server.port}"
        self.channel = grpc.insecure_channel(
            self.address, options=[("grpc.max_send_message_length", -1)]
        )
        self.stub = EmbedderStub(self.channel)
        return self

    def __exit__(self, *_: object) -> None:
        self.gate.open.set()
        self.channel.close()
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(WAIT_S)

    def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            self._run(self.server.stop())

    def stop_soon(self) -> None:
        self._stopped = True
        asyncio.run_coroutine_threadsafe(self.server.stop(), self._loop)

    def health(self, service: str = "") -> int:
        stub: Any = health_pb2_grpc.HealthStub(self.channel)
        asked = health_pb2.HealthCheckRequest(service=service)
        return int(stub.Check(asked, timeout=WAIT_S).status)

    async def _start(self) -> Server:
        serving = Serving("127.0.0.1:0", lanes=self._lanes, reflection=self._reflection)
        server = Server(self.model, serving, self._limits)
        await server.start()
        return server

    def _run(self, coroutine: Coroutine[Any, Any, Result]) -> Result:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(WAIT_S)


def copied(folder: Path, to: Path) -> Path:
    """A copy to hurt."""
    return Path(shutil.copytree(folder, to))
