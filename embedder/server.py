"""One process: the service, health, reflection where asked for, a graceful end."""

from __future__ import annotations

import asyncio
import logging
import signal
from dataclasses import dataclass
from typing import Final

from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_health.v1.health import aio as health_aio
from grpc_reflection.v1alpha import reflection

from embedder import embed_pb2, embed_pb2_grpc
from embedder.errors import SetupError
from embedder.limits import CPU_LIMITS, GPU_LIMITS, Limits
from embedder.metrics import Metrics
from embedder.model import Model
from embedder.otlp import Telemetry
from embedder.scheduler import Kind, Scheduler
from embedder.service import EmbedderService
from embedder.traces import Traces

logger = logging.getLogger(__name__)

NAME: Final = embed_pb2.DESCRIPTOR.services_by_name["Embedder"].full_name
HEALTH: Final = health_pb2.DESCRIPTOR.services_by_name["Health"].full_name


@dataclass(frozen=True, slots=True)
class Serving:
    """How to serve.

    Attributes:
        address: `host:port`, port 0 for a free one, or `unix:/path`.
        lanes: runs of queries at once, and of passages at once; see `scheduler.py`.
        reflection: let clients list the calls.
    """

    address: str
    lanes: int = 1
    reflection: bool = False


class Server:
    """The sidecar's server, to start and stop inside a running loop.

    Attributes:
        port: the one it listens on; 0 for a Unix socket.
    """

    def __init__(
        self,
        model: Model,
        serving: Serving,
        limits: Limits | None = None,
        *,
        telemetry: Telemetry = Telemetry(),  # noqa: B008  # immutable
    ) -> None:
        self._limits = limits or (GPU_LIMITS if model.runtime.on_gpu else CPU_LIMITS)
        self._serving = serving
        lanes = 1 if model.runtime.on_gpu else serving.lanes
        metrics = Metrics(telemetry.meter)
        self._scheduler = Scheduler(
            model.embed,
            self._limits,
            query_lanes=lanes,
            passage_lanes=lanes,
            alone=model.runtime.alone,
            ran=metrics.ran,
        )
        metrics.observe(
            lambda: {kind.value: self._scheduler.queued(kind) for kind in Kind},
            model=model.id,
            asked=model.runtime.asked,
            used=model.runtime.provider,
            device="cuda" if model.runtime.on_gpu else "cpu",
        )
        self._service = EmbedderService(
            model,
            self._scheduler,
            self._limits,
            threads=lanes * model.runtime.threads,
            traces=Traces(telemetry.tracer),
        )
        self._health = health_aio.HealthServicer()
        self._server = aio.server(
            maximum_concurrent_rpcs=self._limits.calls,
            options=[
                ("grpc.max_receive_message_length", self._limits.message_bytes),
                ("grpc.so_reuseport", 0),  # a second server on the port is a mistake: say so
            ],
        )
        self.port = 0

    async def start(self) -> None:
        """Listen.

        Raises:
            SetupError: the address cannot be taken.
        """
        embed_pb2_grpc.add_EmbedderServicer_to_server(self._service, self._server)
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        if self._serving.reflection:
            names = (NAME, HEALTH, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        try:
            self.port = self._server.add_insecure_port(self._serving.address)
        except RuntimeError as error:
            raise SetupError(f"cannot listen on {self._serving.address}: {error}") from error
        await self._server.start()
        for name in ("", NAME):
            await self._health.set(name, health_pb2.HealthCheckResponse.SERVING)

    async def stop(self) -> None:
        """Say so to whoever asks for health, refuse new texts, finish what runs, end."""
        await self._health.enter_graceful_shutdown()
        loop = asyncio.get_running_loop()
        done = await loop.run_in_executor(None, self._scheduler.drain, self._limits.drain_s)
        if not done:
            logger.warning("a run did not end within %.0f s", self._limits.drain_s)
        await self._server.stop(grace=1.0)
        self._service.close()

    async def wait(self) -> None:
        """Until SIGTERM or SIGINT, then stop."""
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stopping.set)
        await stopping.wait()
        await self.stop()
