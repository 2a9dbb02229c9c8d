"""A limit on everything: what one server takes and holds, with the reasons."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one server; memory follows from them.

    Attributes:
        text_chars: longest text to embed; far over any window, so that cutting it is a mistake of
            the caller that should be heard of.
        split_chars: longest texts of one `Split`, together: the largest document of a tenant
            (2 MiB), not a library.
        texts: most texts of one request.
        message_bytes: largest message; gRPC refuses a larger one before it is read.
        calls: calls in progress; the next one is refused.
        queries: queries that wait; more would only expire.
        passages: passages that wait, in tokens at most the window each: a few MB.
        tokenizing: `EmbedPassages` calls whose texts are being tokenized or wait for it.
        splits: `Split` calls in progress; each holds its texts.
        query_batch: most queries of one run.
        passage_batch: most passages of one run.
        padding_share: most padding of a batch, as a share of all its positions. Padding is the
            real cost of batching: positions without text cost as much as ones with it.
        drain_s: how long a stopping server waits for what runs.
    """

    text_chars: int = 100_000
    split_chars: int = 2_500_000
    texts: int = 256
    message_bytes: int = 8 * MIB
    calls: int = 256
    queries: int = 64
    passages: int = 2_048
    tokenizing: int = 16
    splits: int = 8
    query_batch: int = 4
    passage_batch: int = 1
    padding_share: float = 0.15
    drain_s: float = 10.0


CPU_LIMITS = Limits()
GPU_LIMITS = Limits(query_batch=16, passage_batch=16)
"""A GPU is idle without batches; a query may wait for one run of passages, so a small one."""
