"""The bench's section on the whole server: queries and backfill at once, over gRPC."""

from __future__ import annotations

import asyncio
import time
from statistics import quantiles
from typing import Any, Final

from grpc import aio

from embedder import embed_pb2, embed_pb2_grpc
from embedder.model import Model
from embedder.server import Server, Serving

QUERY: Final = "why does the writer refuse this batch"
PASSAGE: Final = (
    "The writer answers when the batch is in its file and the file is in the store. " * 7
)
PER_SECOND: Final = 5
AT_ONCE: Final = 8
"""Passages of one call, and calls on their way: enough that no lane waits for the client."""
SECONDS_LEAST: Final = 4.0


def served(model: Model, seconds: float, lanes: int) -> list[dict[str, Any]]:
    """Query latency and passage rate: each alone, then both together.

    Args:
        model: what to serve.
        seconds: how long to measure; twice that for each row, at least `SECONDS_LEAST`.
        lanes: the server's.
    """
    return asyncio.run(_served(model, max(SECONDS_LEAST, 2 * seconds), lanes))


async def _served(model: Model, seconds: float, lanes: int) -> list[dict[str, Any]]:
    server = Server(model, Serving("127.0.0.1:0", lanes=lanes))
    await server.start()
    async with aio.insecure_channel(f"127.0.0.1:{server.port}") as channel:
        stub: Any = embed_pb2_grpc.EmbedderStub(channel)
        await stub.EmbedQuery(embed_pb2.EmbedQueryRequest(text=QUERY))
        rows = [
            _row("queries alone", await _asked(stub, seconds), None),
            _row("passages alone", [], await _filled(stub, seconds)),
        ]
        asked, filled = await asyncio.gather(_asked(stub, seconds), _filled(stub, seconds))
        rows.append(_row("both", asked, filled))
    await server.stop()
    return rows


async def _asked(stub: Any, seconds: float) -> list[float]:
    """Latencies of queries sent at an even pace, whether or not the last one came back."""

    async def ask() -> float:
        start = time.perf_counter()
        await stub.EmbedQuery(embed_pb2.EmbedQueryRequest(text=QUERY))
        return time.perf_counter() - start

    asking = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        asking.append(asyncio.create_task(ask()))
        await asyncio.sleep(1 / PER_SECOND)
    return list(await asyncio.gather(*asking))


async def _filled(stub: Any, seconds: float) -> float:
    """Passages a second, as a backfill would send them."""
    end = time.perf_counter() + seconds
    done = 0

    async def fill() -> None:
        nonlocal done
        while time.perf_counter() < end:
            request = embed_pb2.EmbedPassagesRequest(texts=[PASSAGE] * AT_ONCE)
            done += len((await stub.EmbedPassages(request)).embeddings)

    start = time.perf_counter()
    await asyncio.gather(fill(), fill())
    return done / (time.perf_counter() - start)


def _row(name: str, asked: list[float], rate: float | None) -> dict[str, Any]:
    cuts = quantiles(asked, n=100, method="inclusive") if asked else None
    return {
        "load": name,
        "query_p50_ms": round(cuts[49] * 1_000, 2) if cuts else None,
        "query_p99_ms": round(cuts[98] * 1_000, 2) if cuts else None,
        "passages_per_s": None if rate is None else round(rate, 2),
    }
