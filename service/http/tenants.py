"""`/v1/admin/tenants`: creating tenants and what may become of them. Only a writer administers."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest
from service.http.answers import json_answer
from service.http.auth import authenticate
from service.http.node import Administration, Node, administration_of, node_of
from service.http.requests import read_fields
from service.tenancy.deletions import Status
from service.tenancy.placements import MAIN
from service.tenancy.records import TenantState

NAME_CHARS: Final = 63


async def tenants(request: Request) -> Response:
    """`GET /v1/admin/tenants` lists them, `POST` creates one. Scope `operator`."""
    node, administration = await _operated(request)
    if request.method != "POST":
        found = await run_sync(administration.lifecycle.tenants)
        return json_answer({"tenants": [_tenant(each) for each in found]})
    fields = await read_fields(request, node.settings)
    name = fields.text("name", most_chars=NAME_CHARS)
    shard = fields.text("shard", MAIN, most_chars=NAME_CHARS)
    fields.done()
    made = await run_sync(partial(administration.lifecycle.create, name, shard))
    return json_answer(_tenant(made), status=201)


async def tenant(request: Request) -> Response:
    """`GET /v1/admin/tenants/{name}` shows one, `DELETE` deletes it. Scope `operator`.

    A deletion that is not done in time answers 202 and goes on; ask again.
    """
    node, administration = await _operated(request)
    name = request.path_params["name"]
    if request.method != "DELETE":
        return json_answer(_tenant(await run_sync(partial(administration.lifecycle.tenant, name))))
    found = await node.administration.run(partial(administration.lifecycle.delete, name))
    done = found.deletion is not None and found.deletion.receipt is not None
    return json_answer(_tenant(found), status=200 if done else 202)


async def suspend(request: Request) -> Response:
    """`POST /v1/admin/tenants/{name}:suspend`: its keys are refused. Scope `operator`."""
    _, administration = await _operated(request)
    change = partial(administration.lifecycle.suspend, request.path_params["name"])
    return json_answer(_tenant(await run_sync(change)))


async def resume(request: Request) -> Response:
    """`POST /v1/admin/tenants/{name}:resume`: its keys work again. Scope `operator`."""
    _, administration = await _operated(request)
    change = partial(administration.lifecycle.resume, request.path_params["name"])
    return json_answer(_tenant(await run_sync(change)))


async def move(request: Request) -> Response:
    """`POST /v1/admin/tenants/{name}:move`: to another shard's writer. Scope `operator`.

    A move that is not done in time answers 202 and goes on; ask again.
    """
    node, administration = await _operated(request)
    fields = await read_fields(request, node.settings)
    to = fields.text("to", most_chars=NAME_CHARS)
    fields.done()
    call = partial(administration.lifecycle.move, request.path_params["name"], to)
    found = await node.administration.run(call)
    done = found.placement is not None and found.placement.moving_to is None
    return json_answer(_tenant(found), status=200 if done else 202)


async def restore(request: Request) -> Response:
    """`POST /v1/admin/tenants/{name}:restore`: back to an earlier moment. Scope `operator`."""
    node, administration = await _operated(request)
    fields = await read_fields(request, node.settings)
    at_ms = fields.time_ms("at")
    dry_run = fields.flag("dry_run", False)
    fields.done()
    if at_ms is None:
        raise InvalidRequest("`at` is missing", hint="Give ms since 1970, or an ISO 8601 time.")
    name = request.path_params["name"]
    call = partial(administration.lifecycle.restore, name, at_ms, dry_run=dry_run)
    done = await node.administration.run(call)
    return json_answer(dataclasses.asdict(done))


async def _operated(request: Request) -> tuple[Node, Administration]:
    node = node_of(request)
    grant = await authenticate(node, request)
    grant.require("operator")
    return node, administration_of(node)


def _tenant(status: Status) -> dict[str, object]:
    tenant, deletion, placement = status.tenant, status.deletion, status.placement
    state = tenant.state.value
    if tenant.state is TenantState.DELETED and (deletion is None or deletion.receipt is None):
        state = "deleting"
    shown: dict[str, object] = {
        "name": tenant.name,
        "state": state,
        "epoch": tenant.epoch,
        "shard": MAIN if placement is None else placement.shard,
        "moving_to": None if placement is None else placement.moving_to,
        "created_at": tenant.created_at,
        "deletion": None,
    }
    if deletion is not None:
        shown["deletion"] = {
            "requested_at": deletion.requested_at,
            "receipt": deletion.receipt,
            "trouble": status.trouble,
        }
    return shown
