"""The query side of the sidecar: one vector a text, behind a deadline, asked for only once.

Equal texts in flight share one call; answers are kept, also those that come after their deadline,
so the same question asked again is answered. A sidecar that does not answer is left alone by a
circuit breaker, one for each worker.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import grpc
import numpy as np

from embedder import embed_pb2 as protocol
from embedder.embed_pb2_grpc import EmbedderStub
from service.semantic.breaker import Breaker
from service.semantic.calls import Calls
from service.semantic.flights import Failure, Flight, Held, Vector
from service.semantic.sidecar import failure_of, open_channel
from service.settings import Settings

#: Failures of the sidecar itself; a refusal is an answer, so it is there.
_SILENT: Final = (Failure.DEADLINE, Failure.UNAVAILABLE, Failure.OVERLOADED)

Key = tuple[str, str]


class EmbedClient:
    """Vectors of queries. Safe to share among threads; made after the fork.

    Args:
        address: `host:port` of the sidecar.
        settings: the limits.
        clock: monotonic seconds.

    Raises:
        SetupError: that is no address.
    """

    def __init__(
        self, address: str, settings: Settings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._channel = open_channel(address)
        self._stub: Any = EmbedderStub(self._channel)
        self.calls: Final = Calls()
        self._clock = clock
        self._deadline_s = settings.semantic_deadline_ms / 1_000
        self._late_s = settings.semantic_late_ms / 1_000
        self._kept_most = settings.semantic_vectors
        self._lock = threading.Lock()
        self._kept: OrderedDict[Key, Vector] = OrderedDict()
        self._flights: dict[Key, Flight] = {}
        self.breaker = Breaker(
            failures_most=settings.semantic_failures,
            pause_ms=settings.semantic_pause_ms,
            clock=clock,
        )

    def close(self) -> None:
        """Ask no more; what is on its way fails."""
        self._channel.close()

    def ask(self, text: str, model: str) -> Vector | Flight | Held:
        """Have a text embedded by this model; returns at once.

        Returns:
            the vector where it is known, else a flight to wait for with `wait`, or `Held`.
        """
        key = model, text
        with self._lock:
            if (known := self._kept.get(key)) is not None:
                self._kept.move_to_end(key)
                return known
            if (flight := self._flights.get(key)) is not None:
                return flight
            if not self.breaker.allows():
                return Held()
            flight = self._flights[key] = Flight(self._clock())
        span, metadata = self.calls.begin("semantic.embed", "EmbedQuery")
        try:
            call = self._stub.EmbedQuery.future(
                protocol.EmbedQueryRequest(text=text, model=model),
                timeout=self._deadline_s + self._late_s,
                metadata=metadata,
            )
        except BaseException:
            self.calls.end(span, "UNAVAILABLE")
            self._end(key, flight, Failure.UNAVAILABLE)
            raise

        def over(done: Any) -> None:
            self.calls.end(span, done.code().name)
            self._end(key, flight, _read(done, model))

        call.add_done_callback(over)
        return flight

    def wait(self, flight: Flight, seconds: float) -> Vector | Failure:
        """The answer of a flight, or `Failure.DEADLINE` when it is not here in time."""
        answer = flight.wait(seconds)
        if answer is None:
            if self._clock() - flight.began >= self._deadline_s:
                self._count(flight, failed=True)
            return Failure.DEADLINE
        return answer

    # --- inside

    def _end(self, key: Key, flight: Flight, answer: Vector | Failure) -> None:
        """A call is over. On gRPC's thread."""
        with self._lock:
            self._flights.pop(key, None)
            if not isinstance(answer, Failure):
                self._kept[key] = answer
                while len(self._kept) > self._kept_most:
                    self._kept.popitem(last=False)
        silent = answer in _SILENT if isinstance(answer, Failure) else False
        late = self._clock() - flight.began > self._deadline_s
        self._count(flight, failed=silent or late)
        flight.land(answer)

    def _count(self, flight: Flight, *, failed: bool) -> None:
        """Tell the breaker of a flight, once: a caller's own short deadline is no failure."""
        with self._lock:
            if flight.counted:
                return
            flight.counted = True
        if failed:
            self.breaker.failed()
        else:
            self.breaker.succeeded()


def _read(call: Any, model: str) -> Vector | Failure:
    """The vector of a call that is over."""
    try:
        reply = call.result()
    except grpc.RpcError as error:
        code = getattr(error, "code", lambda: grpc.StatusCode.UNAVAILABLE)()
        return failure_of(code)
    except grpc.FutureCancelledError:
        return Failure.UNAVAILABLE
    if reply.model != model:
        return Failure.OTHER_MODEL
    vector = np.frombuffer(reply.embedding.vector, dtype=np.int8)
    return vector if len(vector) == reply.dims > 0 else Failure.REFUSED
