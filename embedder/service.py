"""The gRPC calls: check, queue, answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

import grpc
from grpc import aio

from embedder import embed_pb2, embed_pb2_grpc, traces
from embedder.errors import (
    BadInput,
    Draining,
    EmbedderError,
    Expired,
    OtherModel,
    QueueFull,
)
from embedder.limits import Limits
from embedder.model import Model
from embedder.otlp import UNTRACED
from embedder.runtime import versions
from embedder.scheduler import Embedded, Kind, Scheduler
from embedder.split import Passage, split
from embedder.tokens import Tokens
from embedder.traces import Traces

Reply = TypeVar("Reply")
Context = aio.ServicerContext[Any, Any]

CODES: Final[dict[type[EmbedderError], grpc.StatusCode]] = {
    BadInput: grpc.StatusCode.INVALID_ARGUMENT,
    OtherModel: grpc.StatusCode.FAILED_PRECONDITION,
    QueueFull: grpc.StatusCode.RESOURCE_EXHAUSTED,
    Expired: grpc.StatusCode.DEADLINE_EXCEEDED,
    Draining: grpc.StatusCode.UNAVAILABLE,
}
"""Everything else is INTERNAL."""
INLINE_CHARS: Final = 4_096
"""A query this long is tokenized at once, in well under a millisecond; a longer one in a thread."""


class EmbedderService(embed_pb2_grpc.EmbedderServicer):
    """The protocol over one model."""

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        limits: Limits,
        *,
        threads: int = 1,
        traces: Traces | None = None,
    ) -> None:
        """Answer for a model; `threads` is what `Info` says of the cores in use."""
        self._traces = traces or Traces(UNTRACED)
        self._threads = threads
        self._model = model
        self._scheduler = scheduler
        self._limits = limits
        self._tokenizing = ThreadPoolExecutor(1, "tokenize")
        self._splitting = ThreadPoolExecutor(1, "split")
        self._splits = 0
        self._in_tokenizing = 0

    async def EmbedQuery(  # noqa: N802  # the protocol's name
        self, request: embed_pb2.EmbedQueryRequest, context: Context
    ) -> embed_pb2.EmbedQueryReply:
        """One query."""

        async def answer() -> embed_pb2.EmbedQueryReply:
            self._check(request.model, [request.text])
            deadline = _deadline(context)
            tokenize = self._model.tokenizer.query
            if len(request.text) <= INLINE_CHARS:
                tokens = tokenize(request.text)
            else:
                tokens = await self._aside(tokenize, request.text)
            [embedding] = await self._embed(Kind.QUERY, [tokens], deadline)
            return embed_pb2.EmbedQueryReply(
                model=self._model.id, dims=self._model.spec.dims, embedding=embedding
            )

        return await self._answered("EmbedQuery", answer, context)

    async def EmbedPassages(  # noqa: N802
        self, request: embed_pb2.EmbedPassagesRequest, context: Context
    ) -> embed_pb2.EmbedPassagesReply:
        """Passages, all or none."""

        async def answer() -> embed_pb2.EmbedPassagesReply:
            texts = list(request.texts)
            self._check(request.model, texts)
            deadline = _deadline(context)
            tokens = await self._passages(texts, context)
            embeddings = await self._embed(Kind.PASSAGE, tokens, deadline)
            return embed_pb2.EmbedPassagesReply(
                model=self._model.id, dims=self._model.spec.dims, embeddings=embeddings
            )

        return await self._answered("EmbedPassages", answer, context)

    async def Split(  # noqa: N802
        self, request: embed_pb2.SplitRequest, context: Context
    ) -> embed_pb2.SplitReply:
        """Passages of texts, by the model's tokenizer."""

        async def answer() -> embed_pb2.SplitReply:
            texts = list(request.texts)
            self._check_split(texts)
            _deadline(context)
            room = self._model.tokenizer.room
            most = min(request.max_tokens or room, room)
            self._splits += 1
            try:
                done = await asyncio.get_running_loop().run_in_executor(
                    self._splitting, self._split, texts, most, request.max_passages, context
                )
            finally:
                self._splits -= 1
            return embed_pb2.SplitReply(model=self._model.id, texts=done)

        return await self._answered("Split", answer, context)

    async def Info(  # noqa: N802
        self,
        request: embed_pb2.InfoRequest,  # noqa: ARG002  # the protocol's shape
        context: Context,  # noqa: ARG002
    ) -> embed_pb2.InfoReply:
        """What is loaded, and what it really runs on."""
        spec, runtime = self._model.spec, self._model.runtime
        return embed_pb2.InfoReply(
            model=self._model.id,
            dims=spec.dims,
            window_tokens=spec.window_tokens,
            provider_asked=runtime.asked,
            provider=runtime.provider,
            device="cuda" if runtime.on_gpu else "cpu",
            threads=self._threads,
            versions=versions(),
            max_texts=self._limits.texts,
            queued_queries=self._scheduler.queued(Kind.QUERY),
            queued_passages=self._scheduler.queued(Kind.PASSAGE),
        )

    def close(self) -> None:
        """End the threads; call after the scheduler is drained."""
        self._tokenizing.shutdown(wait=False, cancel_futures=True)
        self._splitting.shutdown(wait=False, cancel_futures=True)

    async def _answered(
        self, method: str, answer: Callable[[], Awaitable[Reply]], context: Context
    ) -> Reply:
        """Run a call in its trace; our errors become its status."""
        with self._traces.call(method, context.invocation_metadata() or ()) as call:
            try:
                reply = await answer()
            except EmbedderError as error:
                code = CODES.get(type(error), grpc.StatusCode.INTERNAL)
                call.status = code.name
                await context.abort(code, error.detail)
            call.status = grpc.StatusCode.OK.name
            return reply

    async def _embed(
        self, kind: Kind, texts: Sequence[Tokens], deadline: float | None
    ) -> list[embed_pb2.Embedding]:
        futures = self._scheduler.submit(kind, texts, deadline=deadline)
        try:
            vectors = await asyncio.gather(*map(asyncio.wrap_future, futures))
        finally:
            for future in futures:  # the caller went away, or one failed: the rest is for nobody
                future.cancel()
            _note(futures)
        return [
            embed_pb2.Embedding(vector=vector, tokens=len(tokens), truncated=tokens.truncated)
            for vector, tokens in zip(vectors, texts, strict=True)
        ]

    async def _aside(self, work: Callable[[Any], Reply], argument: object) -> Reply:
        """Tokenize in a thread, so that the loop goes on."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._tokenizing, work, argument)

    async def _passages(self, texts: list[str], context: Context) -> list[Tokens]:
        if self._in_tokenizing >= self._limits.tokenizing:
            raise QueueFull(f"the texts of {self._in_tokenizing} calls are being tokenized")
        tokenize = self._model.tokenizer.passage
        self._in_tokenizing += 1
        try:
            return await self._aside(
                lambda texts: [tokenize(text) for text in texts if not context.done()], texts
            )
        finally:
            self._in_tokenizing -= 1

    def _split(
        self, texts: list[str], max_tokens: int, max_passages: int, context: Context
    ) -> list[embed_pb2.Spans]:
        done = []
        for text in texts:
            if context.done():  # nobody waits
                break
            passages, dropped = split(
                text, self._model.tokenizer, max_tokens=max_tokens, max_passages=max_passages
            )
            done.append(embed_pb2.Spans(spans=map(_span, passages), dropped_tokens=dropped))
        return done

    def _check(self, expected: str, texts: Sequence[str]) -> None:
        if expected and expected != self._model.id:
            raise OtherModel(f"the model here is {self._model.id}, not {expected}")
        self._check_count(texts)
        longest = max(map(len, texts))
        if longest > self._limits.text_chars:
            raise BadInput(
                f"a text of {longest} characters is over the limit of {self._limits.text_chars}"
            )

    def _check_split(self, texts: Sequence[str]) -> None:
        self._check_count(texts)
        chars = sum(map(len, texts))
        if chars > self._limits.split_chars:
            raise BadInput(f"{chars} characters are over the limit of {self._limits.split_chars}")
        if self._splits >= self._limits.splits:
            raise QueueFull(f"{self._splits} texts are being split")

    def _check_count(self, texts: Sequence[str]) -> None:
        if not texts:
            raise BadInput("there are no texts")
        if len(texts) > self._limits.texts:
            raise BadInput(f"{len(texts)} texts are over the limit of {self._limits.texts}")


def _note(futures: Sequence[Embedded]) -> None:
    """Put the wait and the runs of these on the call's trace."""
    call, over = traces.current.get(), [future for future in futures if future.ended]
    if call is None or not over:
        return
    begun = min(future.begun for future in over)
    call.parts += [
        traces.Part("queue", min(future.queued for future in over), begun, len(over)),
        traces.Part("run", begun, max(future.ended for future in over), len(over)),
    ]


def _deadline(context: Context) -> float | None:
    """The call's deadline on `time.monotonic()`'s clock.

    Raises:
        Expired: it has passed.
    """
    left: float | None = context.time_remaining()  # the stubs forget that there may be none
    if left is None:
        return None
    if left <= 0:
        raise Expired("the deadline had passed when the request came")
    return time.monotonic() + left


def _span(passage: Passage) -> embed_pb2.Span:
    return embed_pb2.Span(start=passage.start, end=passage.end, tokens=passage.tokens)
