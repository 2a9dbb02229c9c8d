"""What handlers work with: the parts of this node, given to them by `app.py`.

The protocols say what the parts below must be able to do; nothing here knows how they do it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, Protocol, cast

from starlette.requests import Request

from service.http.limits import Gate
from service.http.problems import NotTheWriter
from service.index.document import Operation
from service.index.reader import IndexReader
from service.index.writer import BatchResult
from service.search.request import SearchRequest, SearchResult
from service.settings import Settings
from service.telemetry.searches import SearchTelemetry
from service.tenancy.records import Tenant
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView

Role = Literal["reader", "writer"]
Durability = Literal["local", "replicated"]
SearchFunction = Callable[[IndexReader, SearchRequest], SearchResult]


class Opened(Protocol):
    """One tenant's file, held still for one request."""

    @property
    def reader(self) -> IndexReader:
        """The file, inside its snapshot."""

    @property
    def age_ms(self) -> int:
        """How old this node's knowledge of the tenant is, by its own clock."""

    @property
    def as_of_ms(self) -> int:
        """The moment up to which it knows everything, ms since 1970."""


class Files(Protocol):
    """The tenants' files that this node can read."""

    def open(
        self,
        file: str,
        *,
        min_version: int | None,
        max_staleness_ms: int | None,
        deadline_ms: int,
    ) -> AbstractContextManager[Opened]:
        """Open a tenant's file. Called in a thread; may block, but not beyond the deadline.

        Args:
            file: its name in the registry.
            min_version: the least index version that will do.
            max_staleness_ms: the greatest age that will do.
            deadline_ms: how long to wait for that; 0 never waits.

        Raises:
            NotFound: there is no such file.
            Unavailable: it is not here yet, or replication is down.
            ReplicaBehind: it is older than asked for.
            IndexFileError: it cannot be used.
        """

    def health(self) -> dict[str, Any]:
        """`ready`, a bool, `reasons`, a list of strings, and whatever else is worth knowing."""


class Tenants(Files, Protocol):
    """The tenants' files that this node owns."""

    def apply(
        self,
        file: str,
        operations: Sequence[Operation],
        *,
        idempotency_key: str | None,
        body_digest: bytes,
        durability: Durability,
    ) -> BatchResult:
        """Commit a batch. Called in a thread.

        Raises:
            NotFound: there is no such file.
            Conflict: the idempotency key came with another body, or is in flight.
            TooLarge: the tenant would hold too much.
            Unavailable: this node may not write now, or the object store did not confirm.
            IndexFileError: the file cannot be used.
        """

    def create_tenant(self, name: str) -> Tenant:
        """Add a tenant to the registry and lay out its file. Called in a thread.

        Raises:
            InvalidRequest: the name is not one.
            Conflict: the name is taken.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class WriterParts:
    """What only a writer has."""

    tenants: Tenants
    registry: Registry


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One worker of this node; built in its lifespan, after the fork."""

    role: Role
    settings: Settings
    files: Files
    view: RegistryView
    search: SearchFunction
    telemetry: SearchTelemetry
    writer: WriterParts | None
    writer_url: str | None
    searches: Gate
    waits: Gate
    batches: Gate


def writer_of(node: Node) -> WriterParts:
    """What only a writer has.

    Raises:
        NotTheWriter: this node is a reader; it says where the writer is, if it knows.
    """
    if node.writer is None:
        raise NotTheWriter("this node takes no writes", writer_url=node.writer_url)
    return node.writer


def node_of(request: Request) -> Node:
    """The node that a request came to."""
    return cast("Node", request.state.node)
