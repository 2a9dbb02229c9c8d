"""Memlane's client: search a tenant's memory, write to it, compare with it.

    with memlane.Client("https://memory.example", key) as client:
        for hit in client.search("gateway retries")["hits"]:
            print(hit["title"])

`AsyncClient` is the same for asyncio. What goes wrong is a `MemlaneError`; see `memlane.errors`.
"""

from memlane.asynchronous import AsyncClient
from memlane.batches import Batch, cut
from memlane.client import Client
from memlane.errors import (
    BadAnswer,
    Conflict,
    Forbidden,
    InvalidBatch,
    InvalidRequest,
    MemlaneError,
    NotFound,
    NotTheWriter,
    Refused,
    ReplicaBehind,
    TooLarge,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from memlane.limits import Limits
from memlane.traffic import Traffic

__all__ = [
    "AsyncClient",
    "BadAnswer",
    "Batch",
    "Client",
    "Conflict",
    "Forbidden",
    "InvalidBatch",
    "InvalidRequest",
    "Limits",
    "MemlaneError",
    "NotFound",
    "NotTheWriter",
    "Refused",
    "ReplicaBehind",
    "TooLarge",
    "Traffic",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "cut",
]
