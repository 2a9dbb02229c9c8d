"""The client for programs with an event loop; `client.py` says what each method does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Any, Self, cast

import httpx
import orjson

from memlane import calls
from memlane.attempts import Address, Answer, Outcome, Pause, Send, attempts
from memlane.batches import cut
from memlane.calls import Call
from memlane.client import check_size
from memlane.errors import MemlaneError
from memlane.limits import Limits
from memlane.shapes import (
    Digests,
    Documents,
    Durability,
    Found,
    Line,
    Ref,
    Rows,
    Timeline,
    Written,
)
from memlane.traffic import Traffic


class AsyncClient:
    """Speaks to one tenant of one service, for any number of tasks of one event loop.

    Every method raises `Unreachable`, `BadAnswer`, or the `Refused` that the answer is. Requests
    that got no answer, or "not now", are sent again; a batch carries an idempotency key, so that
    is safe.

    Args:
        url: of a reader or a writer; a reader that knows its writer says where writes go.
        key: of the tenant, or of an operator.
        limits: attempts, times and sizes.
        transport: for tests.
        sleep: waits so many seconds between attempts.

    Attributes:
        traffic: what went over the wire so far.
    """

    def __init__(
        self,
        url: str,
        key: str,
        *,
        limits: Limits | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.limits = limits or Limits()
        self.traffic = Traffic()
        self._address = Address(url.rstrip("/"), url.rstrip("/"))
        self._sleep = sleep
        try:
            self._http = httpx.AsyncClient(
                headers={"authorization": f"Bearer {key}"},
                timeout=self.limits.timeout_s,
                transport=transport,
            )
        except (ValueError, UnicodeEncodeError) as error:
            raise MemlaneError("the key is not plain ASCII", hint="Check the key.") from error

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    # --- reading

    async def search(
        self,
        q: str,
        *,
        limit: int | None = None,
        kinds: Sequence[str] | None = None,
        cursor: str | None = None,
        updated_after: int | str | None = None,
        updated_before: int | str | None = None,
        min_version: int | None = None,
        max_staleness_ms: int | None = None,
        explain: bool | None = None,
        semantic: dict[str, int] | None = None,
    ) -> Found:
        """Search; times are ms since 1970 or ISO 8601."""
        fields = {
            "limit": limit,
            "cursor": cursor,
            "updated_after": updated_after,
            "updated_before": updated_before,
            "min_version": min_version,
            "max_staleness_ms": max_staleness_ms,
            "explain": explain,
            "semantic": semantic,
        }
        return cast("Found", await self._json(calls.search(q, kinds, fields)))

    async def search_compact(
        self, q: str, *, limit: int | None = None, kinds: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Search for rows of about fifty tokens."""
        fields = {"limit": limit, "layer": "compact"}
        return cast("dict[str, Any]", await self._json(calls.search(q, kinds, fields)))

    async def timeline(
        self,
        kind: str,
        ref: str,
        *,
        before: int | None = None,
        after: int | None = None,
        within: str | None = None,
    ) -> Timeline:
        """What stood before and after a document, within its `kind` or `all`."""
        fields = {"kind": kind, "ref": ref, "before": before, "after": after, "within": within}
        return cast("Timeline", await self._json(calls.post("/v1/timeline", fields)))

    async def get(
        self, refs: Iterable[Ref | tuple[str, str]], *, max_bytes: int | None = None
    ) -> Documents:
        """Whole documents by (kind, ref); what was cut or left out is said."""
        return cast("Documents", await self._json(calls.get(refs, max_bytes)))

    async def prefetch(
        self, text: str, *, budget_ms: int | None = None, kinds: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """What an agent may want to know before a turn; never later than its budget."""
        fields = {"text": text, "budget_ms": budget_ms, "kinds": list(kinds) if kinds else None}
        return cast("dict[str, Any]", await self._json(calls.post("/v1/prefetch", fields)))

    async def status(self) -> dict[str, Any]:
        """Documents and vectors by kind, versions, freshness."""
        return cast("dict[str, Any]", await self._json(calls.read("/v1/index")))

    async def manifest(self, *, min_version: int | None = None) -> Digests:
        """A digest for each of the 256 buckets of documents."""
        return cast(
            "Digests", await self._json(calls.read("/v1/manifest", min_version=min_version))
        )

    async def bucket(self, prefix: str, *, min_version: int | None = None) -> Rows:
        """The documents whose key begins with one or two hex digits."""
        return cast("Rows", await self._json(calls.bucket(prefix, min_version)))

    # --- writing

    async def batch(
        self,
        lines: Iterable[Line] | bytes,
        *,
        atomic: bool = True,
        durability: Durability = "local",
        idempotency_key: str | None = None,
    ) -> Written:
        """Write one batch of upserts and deletions, all of it or nothing.

        Args:
            lines: at most what the service takes at once; bytes are NDJSON.
            atomic: False keeps the good lines when some are refused.
            durability: `replicated` waits for the object store.
            idempotency_key: of this batch; made up when not given.

        Raises:
            InvalidBatch: lines were refused.
        """
        call = calls.batch(
            lines, atomic=atomic, durability=durability, idempotency_key=idempotency_key
        )
        return cast("Written", await self._json(call))

    async def push(
        self, lines: Iterable[Line], *, atomic: bool = True, durability: Durability = "local"
    ) -> AsyncIterator[Written]:
        """Write any number of lines, in batches; the answer to each as it comes."""
        for batch in cut((orjson.dumps(line) for line in lines), self.limits):
            yield await self.batch(batch.body, atomic=atomic, durability=durability)

    # --- anything

    async def call(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        """Any call of the interface, JSON in and out. It may be sent more than once."""
        if fields is None:
            return await self._json(Call(method, path))
        body = orjson.dumps(fields)
        return await self._json(Call(method, path, body, {"content-type": calls.JSON}))

    async def _json(self, call: Call) -> Any:
        return (await self._run(call)).json()

    async def _run(self, call: Call) -> Answer:
        steps = attempts(call, self._address, self.limits)
        outcome: Outcome = None
        try:
            while True:
                step = steps.send(outcome)
                outcome = None
                if isinstance(step, Pause):
                    await self._sleep(step.seconds)
                else:
                    outcome = await self._once(call, step)
        except StopIteration as stop:
            return cast("Answer", stop.value)

    async def _once(self, call: Call, step: Send) -> Answer | httpx.TransportError:
        try:
            request = self._http.build_request(
                call.method, step.url, content=call.body, headers=call.headers
            )
            self.traffic.sent(request)
            answer = await self._http.send(request, stream=True)
            try:
                body = bytearray()
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    check_size(len(body), self.limits)
            finally:
                await answer.aclose()
        except httpx.TransportError as error:
            return error
        except (httpx.InvalidURL, httpx.DecodingError, UnicodeEncodeError) as error:
            raise MemlaneError(
                f"{step.url} cannot be asked ({error})", hint="Check the address."
            ) from error
        self.traffic.received(answer, bytes(body))
        return Answer(answer.status_code, answer.headers, bytes(body))
