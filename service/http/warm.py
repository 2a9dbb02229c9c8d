"""`/v1/index:warm`: have a tenant on this reader before it is asked about, and keep it a while.

A tenant's own key warms that tenant. An operator's key warms those it names: whoever runs the
fleet knows who is about to come (a deployment, a new reader), and no tenant's key can name another.
It acts on the node that answers; behind a balancer each node is asked. A writer holds every file
it owns, always: there it says so and does nothing.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Forbidden, InvalidRequest, MemlaneError
from service.http.answers import json_answer
from service.http.auth import authenticate
from service.http.node import Node, Warming, node_of
from service.http.problems import problem_of
from service.http.requests import read_fields
from service.tenancy.records import Tenant, TenantState
from service.tenancy.view import Grant

NAME_BYTES = 63


async def warm(request: Request) -> Response:
    """`POST /v1/index:warm`: `{"pin_ms", "wait_ms"}`, and `tenants` with an operator's key."""
    node = node_of(request)
    grant = await authenticate(node, request)
    fields = await read_fields(request, node.settings)
    settings = node.settings
    pin_ms = fields.integer("pin_ms", 0, least=0, most=settings.pin_ms)
    wait_ms = fields.integer("wait_ms", settings.activate_ms, least=0, most=settings.activate_ms)
    names = fields.texts(
        "tenants", most=settings.warm_tenants, most_bytes=NAME_BYTES, limit="warm_tenants"
    )
    fields.done()
    if "operator" in grant.scopes:
        tenants = await run_sync(partial(_named, node, names))
        work = partial(_warm_all, node, tenants, pin_ms, wait_ms)
        return json_answer({"tenants": await node.waits.run(work)})
    tenant = _own(grant, names)
    return json_answer(await node.waits.run(partial(_warm, node, tenant, pin_ms, wait_ms)))


def _own(grant: Grant, names: Sequence[str]) -> Tenant:
    grant.require("search")
    if grant.tenant is None:
        raise Forbidden("this key belongs to no tenant", hint="Use one of the tenant's keys.")
    if names:
        raise Forbidden("this key warms its own tenant only", hint="Leave `tenants` out.")
    return grant.tenant


def _named(node: Node, names: Sequence[str]) -> list[Tenant]:
    if not names:
        raise InvalidRequest("`tenants` is missing", hint="Name the tenants to warm.")
    known = {each.name: each for each in node.view.tenants()}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise InvalidRequest(f"{len(unknown)} of the tenants do not exist")
    return [known[name] for name in names if known[name].state is TenantState.ACTIVE]


def _warm_all(
    node: Node, tenants: Sequence[Tenant], pin_ms: int, wait_ms: int
) -> list[dict[str, Any]]:
    """All are asked for at once, without waiting; then each is waited for."""
    deadline = time.monotonic() + wait_ms / 1_000
    for tenant in tenants:
        _tried(node, tenant, 0, 0)
    answers = []
    for tenant in tenants:
        left_ms = max(0, int((deadline - time.monotonic()) * 1_000))
        answers.append({"tenant": tenant.name, **_tried(node, tenant, pin_ms, left_ms)})
    return answers


def _tried(node: Node, tenant: Tenant, pin_ms: int, wait_ms: int) -> dict[str, Any]:
    """As `_warm`; one tenant that cannot be had does not spoil the others."""
    try:
        return _warm(node, tenant, pin_ms, wait_ms)
    except MemlaneError as error:
        return {"resident": False, "reason": problem_of(type(error)).slug}


def _warm(node: Node, tenant: Tenant, pin_ms: int, wait_ms: int) -> dict[str, Any]:
    if not isinstance(node.files, Warming):
        return _here(node, tenant)
    found = node.files.warm(tenant.file, pin_ms=pin_ms, wait_ms=wait_ms)
    return {
        "resident": found.resident,
        "temperature": found.temperature,
        "version": found.version,
        "bytes": found.bytes,
        "activated_ms": found.activated_ms,
        "pinned_ms": found.pinned_ms,
        **({} if found.reason is None else {"reason": found.reason}),
    }


def _here(node: Node, tenant: Tenant) -> dict[str, Any]:
    """A writer's file."""
    asked = node.files.open(tenant.file, min_version=None, max_staleness_ms=None, deadline_ms=0)
    with asked as opened:
        return {
            "resident": True,
            "temperature": opened.temperature,
            "version": opened.reader.version,
            "bytes": opened.reader.status()["bytes"],
            "activated_ms": 0,
            "pinned_ms": 0,
        }
