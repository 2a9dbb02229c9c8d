"""A small sidecar that speaks the real protocol: words hashed into a vector, whole words cut.

`python -m tests.semantic.sidecar PORT [LOG]` runs one; LOG gets a line for each text it embedded.
"""

from __future__ import annotations

import hashlib
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from embedder import embed_pb2 as protocol
from embedder.embed_pb2_grpc import EmbedderServicer, add_EmbedderServicer_to_server

DIMS = 64
MODEL = "words@0123456789ab"


def vector(text: str) -> bytes:
    """Similar for texts that share words."""
    total = np.zeros(DIMS)
    for word in re.findall(r"\w+", text.lower()):
        seed = int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
        total += np.random.default_rng(seed).standard_normal(DIMS)
    largest = np.abs(total).max()
    return bytes(np.rint(total / (largest or 1) * 127).astype(np.int8))


class FakeSidecar(EmbedderServicer):
    """What it does can be changed while it runs.

    Attributes:
        delay_s: before each answer to a query.
        fail: a status to answer queries with.
        refuse: passages that hold this are refused as invalid.
        queries, passages: the texts that were embedded, in order.
        metadata: of the last query.
    """

    def __init__(self, *, model: str = MODEL, log: Path | None = None) -> None:
        self.model = model
        self.delay_s = 0.0
        self.passage_s = 0.0
        self.fail: grpc.StatusCode | None = None
        self.refuse = ""
        self.crash = ""
        self.queries: list[str] = []
        self.passages: list[str] = []
        self.requests: list[int] = []
        self.metadata: dict[str, Any] = {}
        self._log = log
        self._lock = threading.Lock()

    def EmbedQuery(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.metadata = dict(context.invocation_metadata())
        if self.fail is not None:
            context.abort(self.fail, "as told")
        if request.model not in ("", self.model):
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "another model")
        self.queries.append(request.text)
        time.sleep(self.delay_s)
        embedding = protocol.Embedding(vector=vector(request.text), tokens=1)
        return protocol.EmbedQueryReply(model=self.model, dims=DIMS, embedding=embedding)

    def EmbedPassages(self, request: Any, context: Any) -> Any:  # noqa: N802
        if self.crash and any(self.crash in text for text in request.texts):
            context.abort(grpc.StatusCode.UNAVAILABLE, "gone")
        if self.refuse and any(self.refuse in text for text in request.texts):
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "not this")
        with self._lock:
            time.sleep(self.passage_s * len(request.texts))
            self.requests.append(len(request.texts))
            self.passages += request.texts
            if self._log is not None:
                with self._log.open("a") as file:
                    file.writelines(f"{hash_of(text)}\n" for text in request.texts)
        found = [protocol.Embedding(vector=vector(text), tokens=1) for text in request.texts]
        return protocol.EmbedPassagesReply(model=self.model, dims=DIMS, embeddings=found)

    def Split(self, request: Any, context: Any) -> Any:  # noqa: N802
        return protocol.SplitReply(
            model=self.model,
            texts=[
                protocol.Spans(spans=[protocol.Span(start=a, end=b) for a, b in spans])
                for spans in (
                    list(cut(text, request.max_tokens))[: request.max_passages]
                    for text in request.texts
                )
            ],
        )

    def Info(self, request: Any, context: Any) -> Any:  # noqa: N802
        return protocol.InfoReply(model=self.model, dims=DIMS, window_tokens=512, max_texts=64)


def hash_of(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def cut(text: str, tokens: int) -> Iterator[tuple[int, int]]:
    words = [match.span() for match in re.finditer(r"\S+", text)]
    for at in range(0, len(words), tokens):
        part: Sequence[tuple[int, int]] = words[at : at + tokens]
        yield part[0][0], part[-1][1]


def serve(sidecar: FakeSidecar, port: int = 0) -> tuple[grpc.Server, int]:
    server = grpc.server(ThreadPoolExecutor(8), options=[("grpc.so_reuseport", 0)])
    add_EmbedderServicer_to_server(sidecar, server)
    port = server.add_insecure_port(f"127.0.0.1:{port}")
    server.start()
    return server, port


def main() -> None:
    log = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    server, _ = serve(FakeSidecar(log=log), int(sys.argv[1]))
    signal.signal(signal.SIGTERM, lambda *_: server.stop(0))
    print("ready", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
