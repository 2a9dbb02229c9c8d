"""The connection to the embedding sidecar, and its errors as ours."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

import grpc

from embedder import embed_pb2 as protocol
from embedder.embed_pb2_grpc import EmbedderStub
from service.errors import SetupError
from service.semantic.calls import Calls
from service.semantic.flights import Failure

MESSAGE_BYTES: Final = 16 << 20
"""Longest answer that is taken."""
#: A sidecar that comes back is found within this.
RECONNECT_MS: Final = 500
_OPTIONS: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", RECONNECT_MS),
    ("grpc.max_receive_message_length", MESSAGE_BYTES),
    ("grpc.enable_http_proxy", 0),
    # Each client has its own connection: a paused worker's must not be shared.
    ("grpc.use_local_subchannel_pool", 1),
)


class SidecarError(Exception):
    """A call failed.

    Attributes:
        failure: how.
        status: the name of the gRPC status.
    """

    def __init__(self, failure: Failure, status: str) -> None:
        super().__init__(status)
        self.failure = failure
        self.status = status


@dataclasses.dataclass(frozen=True, slots=True)
class Info:
    """What a sidecar has loaded.

    Attributes:
        model: its id.
        dims: of a vector.
        texts_most: texts in one request.
    """

    model: str
    dims: int
    texts_most: int


def failure_of(code: grpc.StatusCode) -> Failure:
    """What a gRPC status means here."""
    known = {
        grpc.StatusCode.DEADLINE_EXCEEDED: Failure.DEADLINE,
        grpc.StatusCode.CANCELLED: Failure.DEADLINE,
        grpc.StatusCode.RESOURCE_EXHAUSTED: Failure.OVERLOADED,
        grpc.StatusCode.FAILED_PRECONDITION: Failure.OTHER_MODEL,
        grpc.StatusCode.INVALID_ARGUMENT: Failure.REFUSED,
        grpc.StatusCode.OUT_OF_RANGE: Failure.REFUSED,
        grpc.StatusCode.INTERNAL: Failure.REFUSED,
        grpc.StatusCode.UNKNOWN: Failure.REFUSED,
    }
    return known.get(code, Failure.UNAVAILABLE)


def open_channel(address: str) -> grpc.Channel:
    """A channel to `host:port`; nothing is connected yet. Not to be used across a fork.

    Raises:
        SetupError: that is no address.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise SetupError(
            f"{address!r} is not the address of a sidecar", hint="Give HOST:PORT, as 127.0.0.1:8090"
        )
    return grpc.insecure_channel(address, options=_OPTIONS)


class Sidecar:
    """Blocking calls, as the backfill makes them.

    Args:
        address: `host:port`.
        timeout_ms: longest that one call may take.

    Raises:
        SetupError: that is no address.
    """

    def __init__(self, address: str, *, timeout_ms: int) -> None:
        self._channel = open_channel(address)
        self._stub: Any = EmbedderStub(self._channel)
        self.calls: Final = Calls()
        self._timeout_s = timeout_ms / 1_000

    def close(self) -> None:
        """End calls under way."""
        self._channel.close()

    def info(self) -> Info:
        """What is loaded.

        Raises:
            SidecarError: no answer.
        """
        reply = self._call("Info", protocol.InfoRequest())
        return Info(reply.model, reply.dims, max(1, reply.max_texts))

    def split(
        self, texts: Sequence[str], *, model: str, tokens_most: int, passages_most: int
    ) -> list[list[tuple[int, int]]]:
        """Begin and end of each text's passages, in code points.

        Raises:
            SidecarError: no answer, or another model's.
        """
        request = protocol.SplitRequest(
            texts=texts, max_tokens=tokens_most, max_passages=passages_most
        )
        reply = self._call("Split", request)
        _check(reply.model, model, len(reply.texts), len(texts))
        return [[(span.start, span.end) for span in each.spans] for each in reply.texts]

    def embed(self, texts: Sequence[str], *, model: str) -> list[bytes]:
        """An int8 vector for each passage.

        Raises:
            SidecarError: no answer, or another model's.
        """
        request = protocol.EmbedPassagesRequest(texts=texts, model=model)
        reply = self._call("EmbedPassages", request)
        _check(reply.model, model, len(reply.embeddings), len(texts))
        vectors = [bytes(embedding.vector) for embedding in reply.embeddings]
        if any(len(vector) != reply.dims for vector in vectors):
            raise SidecarError(Failure.REFUSED, "WRONG_DIMS")
        return vectors

    def embed_query(self, text: str, *, model: str) -> bytes:
        """The int8 vector of a query.

        Raises:
            SidecarError: no answer, or another model's.
        """
        request = protocol.EmbedQueryRequest(text=text, model=model)
        reply = self._call("EmbedQuery", request)
        _check(reply.model, model, len(reply.embedding.vector), reply.dims)
        return bytes(reply.embedding.vector)

    def _call(self, method: str, request: object) -> Any:
        span, metadata = self.calls.begin(f"sidecar {method}", method)
        status = "CANCELLED"
        try:
            call = getattr(self._stub, method)
            reply = call(request, timeout=self._timeout_s, metadata=metadata)
            status = "OK"
        except grpc.RpcError as error:
            code = error.code()
            status = code.name
            raise SidecarError(failure_of(code), status) from None
        finally:
            self.calls.end(span, status)
        return reply


def _check(model: str, wanted: str, got: int, asked: int) -> None:
    if model != wanted:
        raise SidecarError(Failure.OTHER_MODEL, "FAILED_PRECONDITION")
    if got != asked:
        raise SidecarError(Failure.REFUSED, "WRONG_COUNT")
