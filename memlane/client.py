"""The client for programs without an event loop."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self, cast

import httpx
import orjson

from memlane import calls
from memlane.attempts import Address, Answer, Outcome, Pause, Send, attempts
from memlane.batches import cut
from memlane.calls import Call
from memlane.errors import BadAnswer, MemlaneError
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


class Client:
    """Speaks to one tenant of one service. For several threads, use one each.

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
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.limits = limits or Limits()
        self.traffic = Traffic()
        self._address = Address(url.rstrip("/"), url.rstrip("/"))
        self._sleep = sleep
        try:
            self._http = httpx.Client(
                headers={"authorization": f"Bearer {key}"},
                timeout=self.limits.timeout_s,
                transport=transport,
            )
        except (ValueError, UnicodeEncodeError) as error:
            raise MemlaneError("the key is not plain ASCII", hint="Check the key.") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    # --- reading

    def search(
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
        return cast("Found", self._json(calls.search(q, kinds, fields)))

    def search_compact(
        self, q: str, *, limit: int | None = None, kinds: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """Search for rows of about fifty tokens."""
        fields = {"limit": limit, "layer": "compact"}
        return cast("dict[str, Any]", self._json(calls.search(q, kinds, fields)))

    def timeline(
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
        return cast("Timeline", self._json(calls.post("/v1/timeline", fields)))

    def get(
        self, refs: Iterable[Ref | tuple[str, str]], *, max_bytes: int | None = None
    ) -> Documents:
        """Whole documents by (kind, ref); what was cut or left out is said."""
        return cast("Documents", self._json(calls.get(refs, max_bytes)))

    def prefetch(
        self, text: str, *, budget_ms: int | None = None, kinds: Sequence[str] | None = None
    ) -> dict[str, Any]:
        """What an agent may want to know before a turn; never later than its budget."""
        fields = {"text": text, "budget_ms": budget_ms, "kinds": list(kinds) if kinds else None}
        return cast("dict[str, Any]", self._json(calls.post("/v1/prefetch", fields)))

    def status(self) -> dict[str, Any]:
        """Documents and vectors by kind, versions, freshness."""
        return cast("dict[str, Any]", self._json(calls.read("/v1/index")))

    def manifest(self, *, min_version: int | None = None) -> Digests:
        """A digest for each of the 256 buckets of documents."""
        return cast("Digests", self._json(calls.read("/v1/manifest", min_version=min_version)))

    def bucket(self, prefix: str, *, min_version: int | None = None) -> Rows:
        """The documents whose key begins with one or two hex digits."""
        return cast("Rows", self._json(calls.bucket(prefix, min_version)))

    # --- writing

    def batch(
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
        return cast("Written", self._json(call))

    def push(
        self, lines: Iterable[Line], *, atomic: bool = True, durability: Durability = "local"
    ) -> Iterator[Written]:
        """Write any number of lines, in batches; the answer to each as it comes."""
        for batch in cut((orjson.dumps(line) for line in lines), self.limits):
            yield self.batch(batch.body, atomic=atomic, durability=durability)

    # --- anything

    def call(self, method: str, path: str, fields: dict[str, Any] | None = None) -> Any:
        """Any call of the interface, JSON in and out. It may be sent more than once."""
        if fields is None:
            return self._json(Call(method, path))
        body = orjson.dumps(fields)
        return self._json(Call(method, path, body, {"content-type": calls.JSON}))

    def _json(self, call: Call) -> Any:
        return self._run(call).json()

    def _run(self, call: Call) -> Answer:
        steps = attempts(call, self._address, self.limits)
        outcome: Outcome = None
        try:
            while True:
                step = steps.send(outcome)
                outcome = None
                if isinstance(step, Pause):
                    self._sleep(step.seconds)
                else:
                    outcome = self._once(call, step)
        except StopIteration as stop:
            return cast("Answer", stop.value)

    def _once(self, call: Call, step: Send) -> Answer | httpx.TransportError:
        try:
            request = self._http.build_request(
                call.method, step.url, content=call.body, headers=call.headers
            )
            self.traffic.sent(request)
            answer = self._http.send(request, stream=True)
            try:
                body = bytearray()
                for chunk in answer.iter_bytes():
                    body += chunk
                    check_size(len(body), self.limits)
            finally:
                answer.close()
        except httpx.TransportError as error:
            return error
        except (httpx.InvalidURL, httpx.DecodingError, UnicodeEncodeError) as error:
            raise MemlaneError(
                f"{step.url} cannot be asked ({error})", hint="Check the address."
            ) from error
        self.traffic.received(answer, bytes(body))
        return Answer(answer.status_code, answer.headers, bytes(body))


def check_size(size: int, limits: Limits) -> None:
    """See that an answer may be read on.

    Raises:
        BadAnswer: it is over the limit.
    """
    if size > limits.answer_bytes:
        raise BadAnswer(
            f"the answer is longer than {limits.answer_bytes} bytes",
            hint="Ask for less, or raise Limits.answer_bytes.",
        )
