"""Assembly of the two HTTP applications. Nothing is decided here; parts are put together.

Both are built in a worker, after the fork; their parts start and stop with the lifespan.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
)
from pathlib import Path

from anyio.to_thread import run_sync
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware

from service.errors import MemlaneError
from service.http.limits import Gate
from service.http.middleware import Envelope
from service.http.node import (
    Administration,
    Files,
    Lifecycle,
    Node,
    Role,
    SearchFunction,
    Tenants,
    WriterParts,
)
from service.http.operator import OPERATOR_PAGES
from service.http.pages import PAGES
from service.http.routes import ROUTES, http_error, known_error
from service.search import engine
from service.semantic.lane import Lane
from service.settings import Settings
from service.telemetry.backfill import Progress
from service.telemetry.processes import observe_process
from service.telemetry.searches import SearchTelemetry, search_telemetry
from service.tenancy.registry import Registry
from service.tenancy.view import RegistryView

Resources = Sequence[AbstractContextManager[object]]
Observe = Callable[[SearchTelemetry], None]


def create_reader_app(
    *,
    settings: Settings,
    files: Files,
    view: RegistryView,
    counters: Path,
    resources: Resources = (),
    writer_url: str | None = None,
    lane: Lane | None = None,
    observe: Observe | None = None,
    search: SearchFunction = engine.search,
) -> Starlette:
    """A reader: searches replicas, writes nothing.

    Args:
        settings: the limits.
        files: the replicas.
        view: the registry's replica.
        counters: the node's folder of state counters, the same for all its workers.
        resources: entered in this order when the worker starts, left in the other when it stops;
            `files` and `view` may be among them.
        writer_url: where callers that want to write are told to go.
        lane: the semantic lane; None where there is no sidecar.
        observe: adds what the parts tell that only the caller knows, once there is telemetry.
        search: one query over one open index.
    """
    return _create(
        "reader",
        settings,
        files,
        view,
        counters,
        resources,
        search=search,
        lane=lane,
        observe=observe,
        writer=None,
        writer_url=writer_url,
    )


def create_writer_app(
    *,
    settings: Settings,
    tenants: Tenants,
    registry: Registry | None,
    lifecycle: Lifecycle | None,
    view: RegistryView,
    counters: Path,
    resources: Resources = (),
    lane: Lane | None = None,
    backfill: Progress | None = None,
    observe: Observe | None = None,
    search: SearchFunction = engine.search,
) -> Starlette:
    """A writer: takes batches and administers; searches too.

    Args:
        settings: the limits.
        tenants: the files it owns.
        registry: the registry, if it owns it.
        lifecycle: what may become of tenants, where the registry is.
        view: the same registry, read side.
        counters: the node's folder of state counters, the same for all its workers.
        resources: see `create_reader_app`.
        lane: the semantic lane; None where there is no sidecar.
        backfill: how far its backfill is; None where there is no sidecar.
        observe: see `create_reader_app`.
        search: one query over one open index.
    """
    return _create(
        "writer",
        settings,
        tenants,
        view,
        counters,
        resources,
        search=search,
        lane=lane,
        observe=observe,
        writer=WriterParts(
            tenants,
            Administration(registry, lifecycle) if registry and lifecycle else None,
            backfill,
        ),
    )


def _create(
    role: Role,
    settings: Settings,
    files: Files,
    view: RegistryView,
    counters: Path,
    resources: Resources,
    *,
    search: SearchFunction,
    lane: Lane | None,
    observe: Observe | None,
    writer: WriterParts | None,
    writer_url: str | None = None,
) -> Starlette:
    lane = lane or Lane(None, deadline_ms=settings.semantic_deadline_ms)
    resources = (*resources, lane)

    def node(telemetry: SearchTelemetry) -> Node:
        lane.traced_by(telemetry.tracer)
        if writer is not None and writer.backfill is not None:
            telemetry.observe_backfill(writer.backfill)
        observe_process(telemetry.meter)
        if observe is not None:
            observe(telemetry)
        return Node(
            role=role,
            settings=settings,
            files=files,
            view=view,
            search=search,
            lane=lane,
            telemetry=telemetry,
            writer=writer,
            writer_url=writer_url,
            searches=Gate(
                running=settings.search_threads,
                waiting=settings.search_queue,
                patience_ms=settings.search_deadline_ms,
                name="searches",
            ),
            prefetches=Gate(
                running=settings.prefetch_threads,
                waiting=settings.prefetch_queue,
                patience_ms=settings.prefetch_ms_most,
                name="prefetches",
            ),
            waits=Gate(
                running=settings.waiting_threads,
                waiting=settings.search_queue,
                patience_ms=settings.search_deadline_ms,
                name="searches",
            ),
            batches=Gate(
                running=settings.batches_running,
                waiting=settings.batch_queue,
                patience_ms=settings.request_ms,
                name="batches",
            ),
            administration=Gate(
                running=settings.admin_running,
                waiting=settings.admin_queue,
                patience_ms=settings.request_ms,
                name="deletions and restores",
            ),
            exports=Gate(
                running=settings.exports_running,
                waiting=settings.export_queue,
                patience_ms=settings.request_ms,
                name="exports",
            ),
            export_folder=counters.with_name("exports"),
        )

    app = Starlette(
        routes=(*ROUTES, *PAGES, *OPERATOR_PAGES),
        middleware=[Middleware(Envelope)],
        exception_handlers={MemlaneError: known_error, HTTPException: http_error},
        lifespan=_lifespan(role, settings, counters, resources, node),
    )
    app.router.redirect_slashes = False
    return app


def _lifespan(
    role: Role,
    settings: Settings,
    counters: Path,
    resources: Resources,
    node: Callable[[SearchTelemetry], Node],
) -> Callable[[Starlette], AbstractAsyncContextManager[dict[str, object]]]:
    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[dict[str, object]]:
        with ExitStack() as stack:
            telemetry = stack.enter_context(search_telemetry(role, counters, settings))
            for resource in resources:
                # In a thread: starting may block on the object store.
                await run_sync(stack.enter_context, resource)
            yield {"node": node(telemetry)}
            await run_sync(stack.close)

    return lifespan
