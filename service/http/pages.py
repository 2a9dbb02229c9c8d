"""The search page and its session: a key is given once, a signed cookie stands for it after that.

The cookie names the key by its digest, the same that the registry holds, and `auth.py` asks the
registry at each request what that key may do: a revoked key ends the session within the freshness
bound, and no number can come to mean another key. It counts only for requests that this page makes,
and only for searching.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Final

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from service.errors import Forbidden, Unauthorized
from service.http import cookies, static
from service.http.answers import json_answer
from service.http.auth import PAGE_COOKIE, PAGE_SCOPE, searcher, tenant_with
from service.http.node import node_of
from service.http.requests import read_fields

KEY_CHARS: Final = 256
NOT_KEPT: Final = {"cache-control": "no-store"}


async def page(request: Request) -> Response:
    """`GET /`."""
    return static.page(request, "page.html")


async def session(request: Request) -> Response:
    """`GET /session`: whose memory the page searches; `tenant` is null when nobody signed in."""
    node = node_of(request)
    tenant, reason = None, None
    if cookies.value_of(request, PAGE_COOKIE):
        try:
            tenant = (await tenant_with(node, request, "search")).name
        except (Unauthorized, Forbidden) as error:
            reason = error.detail
    return json_answer({"tenant": tenant, "reason": reason}, headers=NOT_KEPT)


async def sign_in(request: Request) -> Response:
    """`POST /session`: `{"key"}`, a tenant's key that may search.

    Raises:
        Forbidden: another site sent it, the key may not search, or its tenant is suspended.
        Unauthorized: the key does not work.
    """
    node = node_of(request)
    _require_own_page(request)
    fields = await read_fields(request, node.settings)
    text = fields.text("key", most_chars=KEY_CHARS, limit="key_chars").strip()
    fields.done()
    grant = await run_sync(partial(node.view.authenticate, text))
    tenant = searcher(grant)
    ttl_s = node.settings.page_session_ms // 1_000
    value = cookies.issue(
        node.view.derived("page"),
        node.view.digest(text).hex(),
        PAGE_SCOPE,
        int(time.time()),
        ttl_s,
    )
    answer = json_answer({"tenant": tenant.name, "reason": None}, headers=NOT_KEPT)
    cookies.attach(answer, request, PAGE_COOKIE, value, ttl_s)
    return answer


async def sign_out(request: Request) -> Response:
    """`DELETE /session`."""
    _require_own_page(request)
    answer = Response(status_code=204, headers=NOT_KEPT)
    cookies.discard(answer, request, PAGE_COOKIE)
    return answer


def _require_own_page(request: Request) -> None:
    if not cookies.from_own_page(request):
        raise Forbidden("only this node's own page may do this", hint="Use the API with a key.")


PAGES: Final = (
    Route("/", page),
    Route("/web/{digest}/{path:path}", static.asset),
    Route("/session", session, methods=["GET"]),
    Route("/session", sign_in, methods=["POST"]),
    Route("/session", sign_out, methods=["DELETE"]),
)
"""For people's browsers; not part of the API."""
