"""What a golden run asks: an index in this process, or a server."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import httpx

from golden import builds
from golden.answers import Answer, Found
from service.errors import SetupError, Unavailable
from service.index.reader import IndexReader
from service.search.engine import search
from service.search.request import SearchRequest

TIMEOUT_S = 30.0
"""Longest a remote search may take before the run gives up."""
BUSY_RETRIES = 5
"""Attempts at a server that answers 429 or 503, each after the wait that it names."""
BUSY_WAIT_MAX_S = 10.0


class OpenIndex:
    """The engine of this checkout over an index file."""

    def __init__(self, path: Path) -> None:
        self._reader = IndexReader(path)
        # What the run itself holds (a corpus, judgements) is not the engine's to be walked over
        # by the garbage collector in the middle of a search.
        gc.collect()
        gc.freeze()

    def search(
        self,
        query: str,
        limit: int,
        *,
        kinds: Sequence[str] = (),
        updated_after_ms: int | None = None,
    ) -> Answer:
        """See `Backend.search`; both clocks enclose one snapshot and the engine."""
        request = SearchRequest(
            q=query, limit=limit, kinds=tuple(kinds), updated_after_ms=updated_after_ms
        )
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        with self._reader.snapshot():
            result = search(self._reader, request)
        cpu, wall = time.thread_time_ns() - cpu, time.perf_counter_ns() - wall
        hits = [Found(h.kind, h.ref, h.title, h.score, h.components) for h in result.hits]
        return Answer(hits, wall_ms=wall / 1e6, cpu_ms=cpu / 1e6)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._reader.close()


class InProcess(OpenIndex):
    """The engine over a corpus file, indexed once and kept in the build cache."""

    def __init__(self, corpus: Path) -> None:
        super().__init__(builds.index_of(corpus))


@dataclass(slots=True)
class Remote:
    """A server's `POST /v1/search`, with the corpus already pushed to the key's tenant."""

    url: str
    key: str
    transport: httpx.BaseTransport | None = None
    _client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self._client = httpx.Client(
            base_url=self.url.rstrip("/"),
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=TIMEOUT_S,
            transport=self.transport,
        )

    def search(
        self,
        query: str,
        limit: int,
        *,
        kinds: Sequence[str] = (),
        updated_after_ms: int | None = None,
    ) -> Answer:
        """See `Backend.search`; waits of a busy server are not in `wall_ms`.

        Raises:
            SetupError: the server cannot be reached, or refuses the key or the request.
            Unavailable: it stayed busy through every retry.
        """
        body: dict[str, Any] = {"q": query, "limit": limit}
        if kinds:
            body["kinds"] = list(kinds)
        if updated_after_ms is not None:
            body["updated_after"] = updated_after_ms
        for _ in range(BUSY_RETRIES):
            started = time.perf_counter_ns()
            response = self._post(body)
            wall_ms = (time.perf_counter_ns() - started) / 1e6
            if response.status_code not in (429, 503):
                return _answer(response, wall_ms)
            time.sleep(min(_retry_after_s(response), BUSY_WAIT_MAX_S))
        raise Unavailable(f"{self.url} stayed busy through {BUSY_RETRIES} attempts")

    def _post(self, body: dict[str, Any]) -> httpx.Response:
        try:
            return self._client.post("/v1/search", json=body)
        except httpx.HTTPError as error:
            raise SetupError(
                f"{self.url} does not answer: {error}", hint="Check --url and that it is running."
            ) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self._client.close()


def _retry_after_s(response: httpx.Response) -> float:
    try:
        return max(0.0, float(response.headers.get("Retry-After", "1")))
    except ValueError:  # an HTTP date: allowed by the RFC, never sent by us
        return 1.0


def _answer(response: httpx.Response, wall_ms: float) -> Answer:
    if response.status_code != httpx.codes.OK:
        raise SetupError(
            f"the server answered {response.status_code} to a search",
            hint="Check --key; the problem body names the field otherwise.",
        )
    try:
        body = response.json()
        hits = [
            Found(h["kind"], h["ref"], h.get("title", ""), h["score"], h.get("components", {}))
            for h in body["hits"]
        ]
        state = body.get("semantic", {}).get("state")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SetupError("the answer is not a search result", hint="Check --url.") from error
    return Answer(hits, wall_ms=wall_ms, semantic_state=state)
