"""`/v1/export`: a tenant's own SQLite file, of one moment, while others go on writing it.

The scope is `admin`: a tenant's owner may take all of it away. Keys that lie on many machines
(`search`, `sync`) cannot. An operator's key names the tenant, and gets a suspended one's too.

The snapshot is copied into a file beside the node's data that has no name any more once it is being
sent: nothing is left of it when this process dies. On a reader the copy holds up the replica's
catching up for as long as it takes, so the answer says how old the replica was.
"""

from __future__ import annotations

import dataclasses
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

import anyio
from anyio.to_thread import run_sync
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.errors import Forbidden, InvalidRequest, NotFound, Unavailable
from service.http.answers import iso_time
from service.http.auth import authenticate
from service.http.fields import LAST_MS, read_integer
from service.http.limits import Gate
from service.http.node import Node, node_of
from service.http.requests import query_fields
from service.http.search import LAST_VERSION
from service.index.copies import copy_snapshot
from service.tenancy.records import Tenant, TenantState
from service.tenancy.view import Grant

NAME_CHARS: Final = 63
CHUNK_BYTES: Final = 1024 * 1024
MEDIA_TYPE: Final = "application/vnd.sqlite3"
_PARAMETERS: Final[Mapping[str, Callable[[str], object]]] = {
    "tenant": str,
    "min_version": read_integer,
    "max_staleness_ms": read_integer,
}


@dataclasses.dataclass(frozen=True, slots=True)
class _Wanted:
    tenant: Tenant
    min_version: int | None
    max_staleness_ms: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class _Copy:
    """An open file without a name, and what the answer says of it."""

    stream: BinaryIO
    headers: dict[str, str]


async def export(request: Request) -> Response:
    """`GET /v1/export`. Scope `admin`; with scope `operator`, `?tenant=` names whose."""
    node = node_of(request)
    grant = await authenticate(node, request)
    fields = query_fields(request, _PARAMETERS)
    name = fields.optional_text("tenant", most_chars=NAME_CHARS)
    min_version = fields.integer("min_version", None, least=0, most=LAST_VERSION)
    max_staleness_ms = fields.integer("max_staleness_ms", None, least=0, most=LAST_MS)
    fields.done()
    tenant = await run_sync(partial(_tenant, node, grant, name))
    if request.method == "HEAD":
        return Response(media_type=MEDIA_TYPE)
    deadline = time.monotonic() + node.settings.export_ms / 1_000
    wanted = _Wanted(tenant, min_version, max_staleness_ms)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(node.exports.enter())
        copy = await node.exports.thread(partial(_copied, node, wanted, deadline))
        stack.callback(copy.stream.close)
        return _Sent(copy, node.exports, stack.pop_all(), deadline)


def _tenant(node: Node, grant: Grant, name: str | None) -> Tenant:
    if "operator" in grant.scopes:
        if name is None:
            raise InvalidRequest("`tenant` is missing", hint="Name the tenant to export.")
        for tenant in node.view.tenants():
            if tenant.name == name and tenant.state is not TenantState.DELETED:
                return tenant
        raise NotFound(f"there is no tenant {name}")
    grant.require("admin")
    if grant.tenant is None or name not in (None, grant.tenant.name):
        raise Forbidden("this key exports its own tenant only", hint="Leave `tenant` out.")
    return grant.tenant


def _copied(node: Node, wanted: _Wanted, deadline: float) -> _Copy:
    """Copy the tenant's file; called in a thread.

    Raises:
        Unavailable: the disk has no room, or the copy took too long.
        NotFound, ReplicaBehind, IndexFileError: see `Files.open`.
    """
    settings, tenant = node.settings, wanted.tenant
    node.export_folder.mkdir(parents=True, exist_ok=True)
    _clear(node.export_folder, settings.export_ms)
    draft = node.export_folder / f"{secrets.token_hex(8)}.tmp"
    try:
        with node.files.open(
            tenant.file,
            min_version=wanted.min_version,
            max_staleness_ms=wanted.max_staleness_ms,
            deadline_ms=settings.search_deadline_ms,
        ) as opened:
            reader = opened.reader
            _check_room(node.export_folder, reader.status()["bytes"], settings.export_free_bytes)
            size = copy_snapshot(
                reader.connection, draft, wanted=lambda: time.monotonic() < deadline
            )
            headers = {
                "content-length": str(size),
                "content-disposition": (
                    f'attachment; filename="{tenant.name}-v{reader.version}.sqlite"'
                ),
                "memlane-index-version": str(reader.version),
                "memlane-index-documents": str(reader.docs),
                "memlane-index-as-of": iso_time(opened.as_of_ms),
                "memlane-index-age-ms": str(opened.age_ms),
            }
        return _Copy(draft.open("rb"), headers)
    finally:
        for suffix in ("", "-journal"):
            draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def _check_room(folder: Path, needed: int, spare: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed + spare:
        raise Unavailable(
            f"the copy needs {needed} bytes and {spare} to spare, this node's disk has {free}",
            retry_after_s=60,
            hint="Export from another node, or make room on this one.",
        )


def _clear(folder: Path, export_ms: int) -> None:
    """Remove copies whose makers died: no living one is as old as an export may take."""
    for path in folder.iterdir():
        try:
            if time.time() - path.stat().st_mtime > 2 * export_ms / 1_000:
                path.unlink()
        except FileNotFoundError:
            continue  # its maker was alive after all


class _Sent(Response):
    """Sends a copy, and keeps its place among the exports until the last byte."""

    def __init__(self, copy: _Copy, gate: Gate, held: AsyncExitStack, deadline: float) -> None:
        super().__init__(headers=copy.headers, media_type=MEDIA_TYPE)
        self._copy = copy
        self._gate = gate
        self._held = held
        self._deadline = deadline

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it all, or break off: the length that was promised tells the client."""
        del scope, receive
        async with self._held:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            with anyio.move_on_after(self._deadline - time.monotonic()) as limit:
                while chunk := await self._gate.thread(
                    partial(self._copy.stream.read, CHUNK_BYTES)
                ):
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})
                await send({"type": "http.response.body", "body": b""})
            if limit.cancelled_caught:
                raise ClientDisconnect
