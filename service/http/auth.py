"""Who asks: `Authorization: Bearer <key>` names a tenant and its rights."""

from __future__ import annotations

from functools import partial

from anyio.to_thread import run_sync
from starlette.requests import Request

from service.errors import Forbidden, Unauthorized
from service.http.node import Node
from service.tenancy.records import Tenant
from service.tenancy.view import Grant, RegistryBusy


async def authenticate(node: Node, request: Request) -> Grant:
    """The grant of the request's key.

    Raises:
        Unauthorized: there is no key, more than one, or one that does not work.
        Forbidden: its tenant is suspended.
        Unavailable: this node has no registry at hand.
    """
    key = _bearer(request)
    try:
        return node.view.authenticate(key, wait_ms=0)
    except RegistryBusy:  # rare: a change is just coming in; wait for it off the event loop
        return await run_sync(partial(node.view.authenticate, key))


async def tenant_with(node: Node, request: Request, scope: str) -> Tenant:
    """The tenant of a request whose key must have this scope.

    Raises:
        Unauthorized: no key that works.
        Forbidden: the key lacks the scope, or belongs to no tenant.
        Unavailable: this node has no registry at hand.
    """
    grant = await authenticate(node, request)
    grant.require(scope)
    if grant.tenant is None:
        raise Forbidden("this key belongs to no tenant", hint="Use one of the tenant's keys.")
    return grant.tenant


def _bearer(request: Request) -> str:
    found = request.headers.getlist("authorization")
    if not found:
        raise Unauthorized("there is no key")
    if len(found) > 1:
        raise Unauthorized("there is more than one Authorization header", hint="Send one.")
    scheme, _, key = found[0].strip().partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized("the Authorization header is not `Bearer <key>`")
    return key.strip()
