"""Who asks: `Authorization: Bearer <key>` names a tenant and its rights.

A search page's cookie does too, for the requests that the page itself makes, and only to search.
"""

from __future__ import annotations

import dataclasses
import time
from functools import partial
from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request

from service.errors import Forbidden, Unauthorized
from service.http import cookies
from service.http.middleware import STATE_SPAN
from service.http.node import Node
from service.tenancy.records import Tenant
from service.tenancy.view import Grant, RegistryBusy

PAGE_COOKIE: Final = "memlane_page"
PAGE_SCOPE: Final = "search page"
"""What the cookie is signed for."""
OPERATOR_COOKIE: Final = "memlane_operator"
OPERATOR_SCOPE: Final = "operator page"


async def authenticate(node: Node, request: Request) -> Grant:
    """The grant of the request's key.

    Raises:
        Unauthorized: there is no key, more than one, or one that does not work.
        Forbidden: its tenant is suspended.
        Unavailable: this node has no registry at hand.
    """
    digest = _signed_in(node, request)
    by_page = digest is not None
    if digest is None:
        digest = node.view.digest(_bearer(request))
    grant = await _recognized(node, digest)
    return dataclasses.replace(grant, scopes=_of_a_page(grant.scopes)) if by_page else grant


async def operator(node: Node, request: Request) -> None:
    """Let only an operator on: by key, or by the cookie of the operator's page.

    The cookie is `SameSite=Strict`, so no other site's request carries it, and what it opens only
    reads.

    Raises:
        Unauthorized: no key and no session that works.
        Forbidden: the key is not an operator's.
        Unavailable: this node has no registry at hand.
    """
    value = cookies.value_of(request, OPERATOR_COOKIE)
    if "authorization" in request.headers or value is None:
        digest = node.view.digest(_bearer(request))
    else:
        digest = _subject(node, value, OPERATOR_SCOPE)
    (await _recognized(node, digest)).require("operator")


async def tenant_with(node: Node, request: Request, scope: str) -> Tenant:
    """The tenant of a request whose key must have this scope.

    Raises:
        Unauthorized: no key that works.
        Forbidden: the key lacks the scope, or belongs to no tenant.
        Unavailable: this node has no registry at hand.
    """
    tenant = _tenant(await authenticate(node, request), scope)
    getattr(request.state, STATE_SPAN).set_attribute("memlane.tenant", tenant.name)
    return tenant


def searcher(grant: Grant) -> Tenant:
    """The tenant that a grant lets search.

    Raises:
        Forbidden: it lacks the scope `search`, or belongs to no tenant.
    """
    return _tenant(grant, "search")


def _tenant(grant: Grant, scope: str) -> Tenant:
    grant.require(scope)
    if grant.tenant is None:
        raise Forbidden("this key belongs to no tenant", hint="Use one of the tenant's keys.")
    return grant.tenant


def _of_a_page(scopes: tuple[str, ...]) -> tuple[str, ...]:
    """What a key may do through a page: a cookie is no way to write or administer."""
    return tuple(scope for scope in scopes if scope == "search")


def _signed_in(node: Node, request: Request) -> bytes | None:
    """The digest of the key that somebody gave the page this request comes from, if one did.

    Raises:
        Unauthorized: that was too long ago, or its cookie is not ours.
    """
    if "authorization" in request.headers or not cookies.from_own_page(request):
        return None
    value = cookies.value_of(request, PAGE_COOKIE)
    if value is None:
        return None
    return _subject(node, value, PAGE_SCOPE)


def _subject(node: Node, value: str, scope: str) -> bytes:
    subject = cookies.read(node.view.derived("page"), value, scope, int(time.time()))
    if subject is None:
        raise Unauthorized("this session has ended", hint="Give the key again.")
    return bytes.fromhex(subject)


async def _recognized(node: Node, digest: bytes) -> Grant:
    try:
        return node.view.recognize(digest, wait_ms=0)
    except RegistryBusy:  # rare: a change is just coming in; wait for it off the event loop
        return await run_sync(partial(node.view.recognize, digest))


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
