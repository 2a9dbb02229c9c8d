"""What handlers work with: the parts of this node, given to them by `app.py`.

The protocols say what the parts below must be able to do; nothing here knows how they do it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, cast, runtime_checkable

from starlette.requests import Request

from service.errors import NotTheWriter
from service.http.limits import Gate
from service.index.document import Operation
from service.index.reader import IndexReader
from service.index.vector_writer import VectorWriter
from service.index.writer import BatchResult
from service.search.request import SearchRequest, SearchResult
from service.search.rescoring import Rescorer
from service.semantic.lane import Lane
from service.settings import Settings
from service.telemetry.backfill import Progress
from service.telemetry.searches import SearchTelemetry
from service.tenancy.deletions import Status
from service.tenancy.records import Rewound
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView

Role = Literal["reader", "writer"]
Durability = Literal["local", "replicated"]
SearchFunction = Callable[[IndexReader, SearchRequest, Rescorer], SearchResult]


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

    @property
    def temperature(self) -> str:
        """How the file came to this request: hot, warm or cold."""


class Warmth(Protocol):
    """A tenant that was asked to be on this node; see `service.node.replicas.Warmth`."""

    @property
    def resident(self) -> bool:
        """It is here."""

    @property
    def temperature(self) -> str:
        """How it was found: hot, warm or cold."""

    @property
    def version(self) -> int | None:
        """At least this version of it is here."""

    @property
    def bytes(self) -> int:
        """Its size."""

    @property
    def activated_ms(self) -> int:
        """How long bringing it here took; 0 when it was here."""

    @property
    def pinned_ms(self) -> int:
        """For how long it is kept from eviction."""

    @property
    def reason(self) -> str | None:
        """Why it is not here."""


@runtime_checkable
class Warming(Protocol):
    """Files that come and go; a writer's never do."""

    def warm(self, file: str, *, pin_ms: int, wait_ms: int) -> Warmth:
        """Bring a tenant's file here and keep it. Called in a thread.

        Raises:
            NotFound: there is no such file.
            IndexCorrupt: what the store has of it is bad.
        """


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
            NotTheWriter: another shard has it.
            Conflict: the idempotency key came with another body, or is in flight.
            TooLarge: the tenant would hold too much.
            Unavailable: this node may not write now, or the object store did not confirm.
            IndexFileError: the file cannot be used.
        """

    def vectors(self, file: str) -> AbstractContextManager[VectorWriter]:
        """A file's vectors, to be written in the block. Called in a thread.

        Raises:
            NotFound, NotTheWriter, Unavailable, IndexFileError: as for `apply`.
        """

    def writer_url(self, shard: str) -> str | None:
        """Where a shard's writer says it takes batches, as this node knows it. Never blocks."""


class Lifecycle(Protocol):
    """What may become of tenants; see `service.node.lifecycle`. Called in threads."""

    def tenants(self) -> list[Status]:
        """All tenants, deleted ones too, oldest first."""

    def tenant(self, name: str) -> Status:
        """One tenant.

        Raises:
            NotFound: there is none of this name, nor was there.
        """

    def create(self, name: str, shard: str) -> Status:
        """Add a tenant to the registry; its file is laid out by the shard's writer.

        Raises:
            InvalidRequest: the name is not one, or there is no such shard.
            Conflict: the name is taken.
        """

    def move(self, name: str, to: str) -> Status:
        """Have another shard's writer take a tenant over, and wait a while for it.

        Raises:
            NotFound: there is no such tenant.
            InvalidRequest: there is no such shard.
            Conflict: it is deleted, or moves somewhere else.
        """

    def suspend(self, name: str) -> Status:
        """Refuse a tenant's keys.

        Raises:
            NotFound: there is no such tenant.
            Conflict: it is deleted.
        """

    def resume(self, name: str) -> Status:
        """Take a tenant's keys again.

        Raises:
            NotFound: there is no such tenant.
            Conflict: it is deleted.
        """

    def delete(self, name: str) -> Status:
        """Delete a tenant for good, and wait a while for the receipt.

        Raises:
            NotFound: there is no such tenant.
        """

    def restore(self, name: str, at_ms: int, *, dry_run: bool) -> Rewound:
        """Bring a tenant back to the last batch committed at or before a moment.

        Raises:
            NotFound: there is no such tenant, or the history does not go back so far.
            InvalidRequest: the moment is still to come.
            Conflict: it is deleted, or something else is done with it just now.
            Unavailable: the store does not take what was committed last, or the disk is full.
            ReplicationError: the store failed or holds damaged objects.
        """


@dataclasses.dataclass(frozen=True, slots=True)
class WriterParts:
    """What only a writer has."""

    tenants: Tenants
    administration: Administration | None
    backfill: Progress | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Administration:
    """What only the writer of the shard `main` has; see `service.tenancy.placements`."""

    registry: Registry
    lifecycle: Lifecycle


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One worker of this node; built in its lifespan, after the fork."""

    role: Role
    settings: Settings
    files: Files
    view: RegistryView
    search: SearchFunction
    lane: Lane
    telemetry: SearchTelemetry
    writer: WriterParts | None
    writer_url: str | None
    searches: Gate
    prefetches: Gate
    waits: Gate
    batches: Gate
    administration: Gate
    exports: Gate
    export_folder: Path


def writer_of(node: Node) -> WriterParts:
    """What only a writer has.

    Raises:
        NotTheWriter: this node is a reader; it says where the writer is, if it knows.
    """
    if node.writer is None:
        raise NotTheWriter("this node takes no writes", writer_url=node.writer_url)
    return node.writer


def administration_of(node: Node) -> Administration:
    """What only the registry's writer has.

    Raises:
        NotTheWriter: this node is another one; it says where that is, if it knows.
    """
    writer = writer_of(node)
    if writer.administration is None:
        raise NotTheWriter(
            "this writer's shard does not have the registry; the shard main has it",
            writer_url=writer.tenants.writer_url("main"),
        )
    return writer.administration


def node_of(request: Request) -> Node:
    """The node that a request came to."""
    return cast("Node", request.state.node)
