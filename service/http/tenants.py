"""`/v1/admin`: tenants and keys. Only a writer administers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Forbidden
from service.http.answers import json_answer
from service.http.auth import authenticate
from service.http.fields import LAST_MS
from service.http.node import node_of, writer_of
from service.http.requests import read_fields
from service.tenancy.keys import SCOPES
from service.tenancy.records import Tenant
from service.tenancy.registry import LABEL_CHARS
from service.tenancy.view import Grant

NAME_CHARS: Final = 63
_T = TypeVar("_T")


async def tenants(request: Request) -> Response:
    """`GET /v1/admin/tenants` lists them, `POST` creates one. Scope `operator`."""
    node = node_of(request)
    grant = await authenticate(node, request)
    grant.require("operator")
    writer = writer_of(node)
    if request.method != "POST":
        found = await _in_thread(writer.registry.tenants)
        return json_answer({"tenants": [_tenant(tenant) for tenant in found]})
    fields = await read_fields(request, node.settings)
    name = fields.text("name", most_chars=NAME_CHARS)
    fields.done()
    made = await _in_thread(partial(writer.tenants.create_tenant, name))
    return json_answer(_tenant(made), status=201)


async def keys(request: Request) -> Response:
    """`POST /v1/admin/keys` makes a key and shows it this one time.

    An operator's key makes keys for every tenant; a tenant's `admin` key for its own.
    """
    node = node_of(request)
    grant = await authenticate(node, request)
    writer = writer_of(node)
    fields = await read_fields(request, node.settings)
    tenant = fields.optional_text("tenant", most_chars=NAME_CHARS)
    scopes = fields.texts("scopes", most=len(SCOPES), most_bytes=16)
    label = fields.text("label", "", most_chars=LABEL_CHARS)
    expires_at = fields.integer("expires_at", None, least=0, most=LAST_MS)
    fields.done()
    tenant = _allowed_tenant(grant, tenant)
    create = partial(writer.registry.create_key, tenant, scopes, label=label, expires_at=expires_at)
    made = await _in_thread(create)
    record = dataclasses.asdict(made.record)
    return json_answer({"key": made.key.text, **record}, status=201)


def _allowed_tenant(grant: Grant, wanted: str | None) -> str | None:
    if "operator" in grant.scopes:
        return wanted
    grant.require("admin")
    own = grant.tenant.name if grant.tenant else None
    if own is None or wanted not in (None, own):
        raise Forbidden("this key manages its own tenant's keys only")
    return own


def _tenant(tenant: Tenant) -> dict[str, object]:
    return {
        "name": tenant.name,
        "state": tenant.state.value,
        "epoch": tenant.epoch,
        "created_at": tenant.created_at,
    }


async def _in_thread(call: Callable[[], _T]) -> _T:
    return await run_sync(call)
