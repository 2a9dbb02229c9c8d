"""The semantic lane of one worker, and of one search: what happened to it is decided here alone."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Final, Self, assert_never

import numpy as np
from opentelemetry.trace import Tracer

from service.index.reader import IndexReader
from service.index.vectors import PERCENT_FULL, read_stamp, read_vectors
from service.ranking import rescore
from service.search.request import SearchRequest
from service.search.rescoring import Pool
from service.search.rescoring import Rescored as Component
from service.semantic.flights import Failure, Flight, Held, QueryVectors, Vector
from service.semantic.state import (
    NO_SIDECAR,
    Rescored,
    SemanticOutcome,
    SemanticReason,
    outcome_of,
)
from service.settings import Settings
from service.text import names_only, parse_query


class Attempt:
    """The lane in one search; a `service.search.rescoring.Rescorer`. Belongs to one thread.

    Making it has the query embedded, while the keyword lanes run; being called waits for that, no
    longer than the deadline. Whatever happens, `outcome` gives exactly one outcome.

    Attributes:
        took_ms: by phase: `semantic`, the wait for the query's vector; `rescore`, the arithmetic.

    Args:
        client: asks the sidecar.
        reader: the tenant's file, inside its snapshot.
        request: what is asked.
        deadline_s: from now on, how long the query's vector is waited for; 0: not at all.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        client: QueryVectors,
        reader: IndexReader,
        request: SearchRequest,
        *,
        deadline_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._reader = reader
        self._until = clock() + deadline_s
        self._clock = clock
        self._stamp = read_stamp(reader.connection)
        self.took_ms: Final[dict[str, float]] = {}
        self._asked: Vector | Flight | None = None
        # Stands when the engine has nothing to rescore.
        self._verdict: SemanticReason | Rescored = SemanticReason.NO_CANDIDATES
        text = parse_query(request.q).text
        if (reason := self._useless(text, deadline_s)) is not None:
            self._verdict = reason
            return
        assert self._stamp.model is not None
        match self._client.ask(text, self._stamp.model):
            case Held():
                self._verdict = SemanticReason.CIRCUIT_OPEN
            case asked:
                self._asked = asked

    def __call__(self, pool: Pool) -> Component | None:
        """See `Rescorer`. The vectors are read while the query's is on its way."""
        if self._asked is None or not len(pool.leading):
            return None
        ids = pool.ids[pool.leading]
        found = read_vectors(self._reader.connection, ids, self._stamp.dims)
        if not len(found.owners):
            self._verdict = SemanticReason.BACKFILL_PENDING
            return None
        begun = self._clock()
        query = self._vector(self._asked)
        self._took("semantic", begun)
        if isinstance(query, Failure):
            self._verdict = _reason(query)
            return None
        begun = self._clock()
        cosine = np.full(len(pool.ids), np.nan)
        cosine[pool.leading] = rescore.cosines(query, found.vectors, found.owners, len(ids))
        weight = rescore.WEIGHT * self._stamp.percent / PERCENT_FULL
        component = rescore.component(cosine, pool.keyword, pool.exact, pool.ids, weight)
        self._took("rescore", begun)
        self._verdict = Rescored(len(np.unique(found.owners)) / len(ids))
        return Component(component, weight)

    def decline(self) -> None:
        """See `Rescorer`."""
        self._asked = None
        self._verdict = SemanticReason.REQUESTED

    @property
    def outcome(self) -> SemanticOutcome:
        """What became of the lane."""
        return outcome_of(self._verdict, self._stamp.model)

    # --- inside

    def _took(self, phase: str, begun: float) -> None:
        self.took_ms[phase] = round((self._clock() - begun) * 1_000, 3)

    def _useless(self, text: str, deadline_s: float) -> SemanticReason | None:
        """Why the sidecar need not be asked."""
        if not self._stamp.percent:
            return SemanticReason.TENANT_OFF
        if deadline_s <= 0 or not text.split():
            return SemanticReason.REQUESTED
        if names_only(text):
            return SemanticReason.IDENTIFIER_QUERY
        if self._stamp.model is None:
            return SemanticReason.BACKFILL_PENDING
        if not self._stamp.current:
            return SemanticReason.MODEL_CHANGED
        return None

    def _vector(self, asked: Vector | Flight) -> Vector | Failure:
        if not isinstance(asked, Flight):
            return asked
        vector = self._client.wait(asked, self._until - self._clock())
        if isinstance(vector, Failure) or len(vector) == self._stamp.dims:
            return vector
        return Failure.OTHER_MODEL


class Off:
    """The lane in one search of a deployment without a sidecar."""

    outcome = outcome_of(SemanticReason.NO_SIDECAR, None)
    took_ms: Final[dict[str, float]] = {}

    def __call__(self, pool: Pool) -> None:
        """See `Rescorer`."""

    def decline(self) -> None:
        """See `Rescorer`."""


class Lane(AbstractContextManager["Lane"]):
    """The lane of one worker.

    Args:
        client: asks the sidecar; None where there is none.
        deadline_ms: the longest a search waits for it.
        traced_by: is told who draws the spans of what the client does.
    """

    def __init__(
        self,
        client: QueryVectors | None,
        *,
        deadline_ms: int,
        traced_by: Callable[[Tracer], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._deadline_ms = deadline_ms
        self.traced_by: Final = traced_by

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._client is not None:
            self._client.close()

    def unreached(self, reason: SemanticReason) -> SemanticOutcome:
        """The outcome of a search that ended before its file could be asked."""
        return NO_SIDECAR if self._client is None else outcome_of(reason, None)

    def attempt(
        self,
        reader: IndexReader,
        request: SearchRequest,
        *,
        asked_ms: int | None,
        budget_ms: float,
    ) -> Attempt | Off:
        """Begin one search.

        Args:
            reader: the tenant's file, inside its snapshot.
            request: what is asked.
            asked_ms: the deadline that the caller asked for.
            budget_ms: what is left of the time for the whole search.
        """
        if self._client is None:
            return Off()
        deadline_ms = min(self._deadline_ms, budget_ms)
        if asked_ms is not None:
            deadline_ms = min(deadline_ms, asked_ms)
        return Attempt(self._client, reader, request, deadline_s=deadline_ms / 1_000)


def open_lane(address: str | None, settings: Settings) -> Lane:
    """The lane of this worker, after the fork.

    Args:
        address: `host:port` of the sidecar; None where there is none.
        settings: the limits.

    Raises:
        SetupError: that is no address.
    """
    if address is None:
        return Lane(None, deadline_ms=settings.semantic_deadline_ms)
    # Only here: without a sidecar no worker carries gRPC.
    from service.semantic.client import EmbedClient

    client = EmbedClient(address, settings)
    return Lane(client, deadline_ms=settings.semantic_deadline_ms, traced_by=client.calls.traced_by)


def _reason(failure: Failure) -> SemanticReason:
    match failure:
        case Failure.DEADLINE:
            return SemanticReason.DEADLINE
        case Failure.OVERLOADED:
            return SemanticReason.SIDECAR_OVERLOADED
        case Failure.UNAVAILABLE | Failure.REFUSED:
            return SemanticReason.SIDECAR_UNAVAILABLE
        case Failure.OTHER_MODEL:
            return SemanticReason.MODEL_CHANGED
        case _:
            assert_never(failure)
