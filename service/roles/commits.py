"""The writer's one process that commits: what it is made of, with the registry or without.

The registry belongs to the shard `main`. Writers of other shards follow it read-only: it tells them
whose keys work and which tenants are theirs, and they leave administration to `main`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp

from service.app import create_writer_app
from service.node.lifecycle import Lifecycle
from service.node.moves import Mover
from service.node.replicas import Replicas
from service.node.shardmap import ShardMap
from service.node.tenants import Tenants
from service.replica import (
    Canary,
    LeaseGuard,
    ObjectStore,
    Publisher,
    Tenure,
    current_path,
    open_store,
)
from service.replica.spans import spans
from service.roles.folders import Folders
from service.semantic.lane import open_lane
from service.settings import Settings
from service.telemetry.publishing import observe_publishing
from service.telemetry.searches import SearchTelemetry
from service.telemetry.syncing import Syncing
from service.tenancy.placements import MAIN, Placements
from service.tenancy.registry import Registry
from service.tenancy.secret import load_secret
from service.tenancy.view import RegistryView

if TYPE_CHECKING:
    from service.semantic.backfill import Backfill


@dataclasses.dataclass(frozen=True, slots=True)
class _Base:
    """What every writer has, whatever its shard."""

    settings: Settings
    folders: Folders
    store: ObjectStore
    guard: LeaseGuard
    publisher: Publisher
    view: RegistryView
    shards: ShardMap

    def tenants(self, registry: Registry | None) -> Tenants:
        return Tenants(
            self.folders.data,
            registry=registry,
            publisher=self.publisher,
            guard=self.guard,
            shards=self.shards,
            settings=self.settings,
        )

    def mover(self, tenants: Tenants, registry: Registry | None) -> Mover:
        def secure() -> None:
            if registry is not None:
                file = registry.path.parent.name
                self.publisher.replicate_now(file, registry.version, self.settings.replicate_ms)

        return Mover(
            self.folders.data,
            self.store,
            shards=self.shards,
            tenants=tenants,
            publisher=self.publisher,
            view=self.view,
            placements=None if registry is None else Placements(registry),
            secure=secure,
            settings=self.settings,
            term=self.guard.tenure.term,
        )


def create_app(config: Mapping[str, Any]) -> ASGIApp:
    """The web process's application; gunicorn calls this after the fork."""
    settings = Settings.from_environment()
    folders = Folders(Path(config["data"]))
    shard = config["shard"]
    guard = LeaseGuard(folders.data, Tenure(config["term"], config["owner"]))
    store = open_store(config["store"], settings)
    file = (folders.writer / "registry").read_text().strip() if shard == MAIN else None
    publisher = Publisher(
        folders.data,
        store,
        shard=shard,
        registry=file,
        heads_interval_ms=settings.heads_interval_ms,
        heads_heartbeat_ms=settings.heads_heartbeat_ms,
        tenure=guard.tenure,
        url=config["url"],
    )
    resources: list[AbstractContextManager[object]] = []
    secret = load_secret(folders.secret)
    if file is None:
        replicas = Replicas(folders.registry, settings)
        resources.append(replicas)
        view = RegistryView(replicas.registry_path, secret, clean=replicas.registry_clean)
    else:
        path = current_path(folders.data, file)
        view = RegistryView(lambda: path, secret)
    shards = ShardMap(shard, view=view, publisher=publisher)
    base = _Base(settings, folders, store, guard, publisher, view, shards)
    registry = None if file is None else _registry(base, file, secret)
    tenants = base.tenants(registry)
    resources += [tenants] if registry is None else [registry, tenants]
    resources.append(_running(base, tenants))
    lifecycle = None
    if registry is not None and file is not None:
        lifecycle = Lifecycle(
            folders.data,
            store,
            tenants=tenants,
            registry=registry,
            registry_file=file,
            publisher=publisher,
            settings=settings,
            term=guard.tenure.term,
        )
        resources.append(lifecycle)
    resources.append(base.mover(tenants, registry))

    backfill = _backfill(tenants, config["embedder"], settings)
    if backfill is not None:
        resources.append(backfill)

    def observe(telemetry: SearchTelemetry) -> None:
        spans.drawn_by(telemetry.tracer)
        observe_publishing(telemetry.meter, shard, publisher)
        tenants.applied = Syncing(telemetry.meter).applied
        if backfill is not None:
            backfill.calls.traced_by(telemetry.tracer)

    return create_writer_app(
        settings=settings,
        tenants=tenants,
        registry=registry,
        lifecycle=lifecycle,
        view=view,
        counters=folders.writer / "counters",
        resources=resources,
        lane=open_lane(config["embedder"], settings),
        backfill=None if backfill is None else backfill.progress,
        observe=observe,
    )


def _backfill(tenants: Tenants, address: str | None, settings: Settings) -> Backfill | None:
    if address is None:
        return None
    # Only here: without a sidecar no writer carries gRPC.
    from service.semantic.backfill import Backfill
    from service.semantic.sidecar import Sidecar

    sidecar = Sidecar(address, timeout_ms=settings.backfill_call_ms)
    backfill = Backfill(tenants, sidecar, settings, calls=sidecar.calls)
    tenants.listener = backfill.changed
    return backfill


def _registry(base: _Base, file: str, secret: bytes) -> Registry:
    def changed() -> None:
        base.publisher.changed(file)
        base.guard.check()  # a change of the registry is not acknowledged either without the lease

    return Registry(current_path(base.folders.data, file), secret, changed=changed)


@contextmanager
def _running(base: _Base, tenants: Tenants) -> Iterator[None]:
    canary = Canary(
        base.folders.data,
        base.shards.shard,
        changed=base.publisher.changed,
        interval_ms=base.settings.canary_interval_ms,
        term=base.guard.tenure.term,
        may_write=lambda: base.guard.reason() is None,
    )
    base.publisher.start()
    tenants.lay_out_missing()
    canary.start()
    try:
        yield
    finally:
        canary.stop()
        base.publisher.stop(base.settings.drain_ms)
