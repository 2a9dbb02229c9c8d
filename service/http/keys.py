"""`/v1/admin/keys`: making keys. Only a writer administers."""

from __future__ import annotations

import dataclasses
from functools import partial

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response

from service.errors import Forbidden
from service.http.answers import json_answer
from service.http.auth import authenticate
from service.http.fields import LAST_MS
from service.http.node import administration_of, node_of
from service.http.requests import read_fields
from service.http.tenants import NAME_CHARS
from service.tenancy.keys import SCOPES
from service.tenancy.registry import LABEL_CHARS
from service.tenancy.view import Grant


async def keys(request: Request) -> Response:
    """`POST /v1/admin/keys` makes a key and shows it this one time.

    An operator's key makes keys for every tenant; a tenant's `admin` key for its own.
    """
    node = node_of(request)
    grant = await authenticate(node, request)
    administration = administration_of(node)
    fields = await read_fields(request, node.settings)
    tenant = fields.optional_text("tenant", most_chars=NAME_CHARS)
    scopes = fields.texts("scopes", most=len(SCOPES), most_bytes=16)
    label = fields.text("label", "", most_chars=LABEL_CHARS)
    expires_at = fields.integer("expires_at", None, least=0, most=LAST_MS)
    fields.done()
    tenant = _allowed_tenant(grant, tenant)
    make_key = administration.registry.create_key
    create = partial(make_key, tenant, scopes, label=label, expires_at=expires_at)
    made = await run_sync(create)
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
