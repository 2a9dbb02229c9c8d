"""The operator's view of this node: JSON under `/v1/operator`, pages under `/operator`."""

from __future__ import annotations

import socket
import time
from functools import partial
from importlib.metadata import version
from typing import Any, Final
from urllib.parse import parse_qsl

from anyio.to_thread import run_sync
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from service.errors import Forbidden, InvalidRequest, MemlaneError, NotFound, Unauthorized
from service.http import cookies, static
from service.http.answers import json_answer
from service.http.auth import OPERATOR_COOKIE, OPERATOR_SCOPE, operator
from service.http.health import health_of
from service.http.node import Node, node_of
from service.http.requests import body_chunks, query_fields
from service.operator import pages, reports, summary
from service.operator.reports import Listing
from service.telemetry.figures_read import FiguresReader, Window

MINUTES: Final = 60
TEXT_CHARS: Final = 64
PAGE_MOST: Final = 10_000
KEY_CHARS: Final = 256
HOST: Final = socket.gethostname()
SEE_OTHER: Final = 303
NOT_KEPT: Final = {"cache-control": "no-store"}
_HERE: Final = ("same-origin", "none")
"""Where browsers say that a form of ours comes from (Fetch Metadata); older ones say nothing."""


async def overview(request: Request) -> Response:
    """`GET /v1/operator/overview`: `minutes`, and `order`, `text`, `page` of its tenants."""
    node = node_of(request)
    await operator(node, request)
    return json_answer(await _overview(request), headers=NOT_KEPT)


async def tenant(request: Request) -> Response:
    """`GET /v1/operator/tenants/{name}`: `minutes`."""
    node = node_of(request)
    await operator(node, request)
    name = request.path_params["name"]
    report = await run_sync(reports.tenant, _figures(node), _window(request), name)
    if report is None:
        raise NotFound(
            "this node keeps no figures of such a tenant", hint="It keeps those it was asked for."
        )
    return json_answer(report, headers=NOT_KEPT)


async def query(request: Request) -> Response:
    """`GET /v1/operator/queries/{id}`."""
    node = node_of(request)
    await operator(node, request)
    story = await run_sync(reports.query, _figures(node), request.path_params["id"])
    if story is None:
        raise NotFound(
            "this node keeps no story under this id",
            hint="Ask the node that answered; ordinary searches are forgotten first.",
        )
    return json_answer(story, headers=NOT_KEPT)


# --- pages


async def overview_page(request: Request) -> Response:
    """`GET /operator`."""
    if (gate := await _gate(request)) is not None:
        return gate
    report = await _overview(request)
    return _page(
        "overview",
        **report,
        charts=pages.drawn(report),
        minutes=_minutes(request),
        state=pages.Condition.of(report["health"]),
    )


async def tenant_page(request: Request) -> Response:
    """`GET /operator/tenants/{name}`."""
    if (gate := await _gate(request)) is not None:
        return gate
    node, name = node_of(request), request.path_params["name"]
    report = await run_sync(reports.tenant, _figures(node), _window(request), name)
    vectors, missing = await run_sync(partial(_vectors, node, name))
    return _page(
        "tenant",
        name=name,
        report=report,
        charts=None if report is None else pages.drawn(report),
        minutes=_minutes(request),
        vectors=vectors,
        vectors_missing=missing,
    )


async def query_page(request: Request) -> Response:
    """`GET /operator/queries/{id}`."""
    if (gate := await _gate(request)) is not None:
        return gate
    number = request.path_params["id"]
    story = await run_sync(reports.query, _figures(node_of(request)), number)
    scale = 1.0 if story is None else max(_end(story), 0.001)
    return _page("query", id=number, story=story, scale=scale)


async def sign_in(request: Request) -> Response:
    """`POST /operator/session`: a form with `key`, an operator's."""
    node = node_of(request)
    _require_own_form(request)
    form = await _form(request)
    text = form.get("key", "").strip()[:KEY_CHARS]
    try:
        (await run_sync(partial(node.view.authenticate, text))).require("operator")
    except (Unauthorized, Forbidden) as error:
        return _sign_in_page(error.detail)
    ttl_s = node.settings.operator_session_ms // 1_000
    value = cookies.issue(
        node.view.derived("page"),
        node.view.digest(text).hex(),
        OPERATOR_SCOPE,
        int(time.time()),
        ttl_s,
    )
    answer = RedirectResponse("/operator", SEE_OTHER, headers=NOT_KEPT)
    cookies.attach(answer, request, OPERATOR_COOKIE, value, ttl_s)
    return answer


async def leave(request: Request) -> Response:
    """`POST /operator/leave`."""
    _require_own_form(request)
    answer = RedirectResponse("/operator", SEE_OTHER, headers=NOT_KEPT)
    cookies.discard(answer, request, OPERATOR_COOKIE)
    return answer


OPERATOR_PAGES: Final = (
    Route("/operator", overview_page),
    Route("/operator/tenants/{name}", tenant_page),
    Route("/operator/queries/{id}", query_page),
    Route("/operator/session", sign_in, methods=["POST"]),
    Route("/operator/leave", leave, methods=["POST"]),
)
"""For operators' browsers; not part of the API."""


# --- inside


async def _overview(request: Request) -> dict[str, Any]:
    node = node_of(request)
    fields = query_fields(request, {"minutes": int, "order": str, "text": str, "page": int})
    minutes = fields.integer("minutes", MINUTES, least=1, most=node.settings.figures_minutes)
    listing = Listing(
        order=fields.choice("order", "cpu", among=tuple(summary.ORDERS)),
        text=fields.optional_text("text", most_chars=TEXT_CHARS) or "",
        page=fields.integer("page", 1, least=1, most=PAGE_MOST),
    )
    fields.done()
    window = Window.of(int(time.time() * 1_000), minutes)
    report = await run_sync(reports.overview, _figures(node), window, listing)
    health = await run_sync(health_of, node)
    return {
        "node": {"role": node.role, "host": HOST, "release": version("memlane")},
        "health": health,
        "backfill": health.get("backfill"),
        "staleness_ms": node.settings.staleness_ms,
        **report,
    }


def _minutes(request: Request) -> int:
    node = node_of(request)
    text = request.query_params.get("minutes", str(MINUTES))
    if not (text.isdecimal() and 1 <= int(text) <= node.settings.figures_minutes):
        raise InvalidRequest(f"`minutes` is not a number from 1 to {node.settings.figures_minutes}")
    return int(text)


def _window(request: Request) -> Window:
    return Window.of(int(time.time() * 1_000), _minutes(request))


def _figures(node: Node) -> FiguresReader:
    figures = node.telemetry.figures
    if figures is None:
        raise NotFound("this node keeps no figures")
    return FiguresReader(figures.path)


def _vectors(node: Node, name: str) -> tuple[dict[str, Any] | None, str]:
    """A tenant's vectors in this node's copy, or why there are none to show."""
    try:
        found = next((each for each in node.view.tenants() if each.name == name), None)
        if found is None:
            return None, "There is no such tenant."
        with node.files.open(
            found.file, min_version=None, max_staleness_ms=None, deadline_ms=0
        ) as opened:
            vectors: dict[str, Any] = opened.reader.status()["vectors"]
            return vectors, ""
    except MemlaneError as error:
        return None, f"They cannot be shown: {error.detail}."


def _end(story: dict[str, Any]) -> float:
    ends = [each["begin_ms"] + each["took_ms"] for each in story["phases"]]
    return float(max([story["total_ms"], *ends]))


async def _gate(request: Request) -> Response | None:
    """The page to sign in on, for who has not; None for who has."""
    try:
        await operator(node_of(request), request)
    except (Unauthorized, Forbidden) as error:
        tried = cookies.value_of(request, OPERATOR_COOKIE) or "authorization" in request.headers
        return _sign_in_page(error.detail if tried else None)
    return None


def _sign_in_page(error: str | None) -> Response:
    return _page("sign_in", error=error, signed_in=False)


def _page(template: str, *, signed_in: bool = True, **values: Any) -> Response:
    web = f"/web/{static.web().digest}"
    text = pages.render(template, web, signed_in=signed_in, **values)
    return HTMLResponse(text, headers={**static.SECURITY_HEADERS, **NOT_KEPT})


def _require_own_form(request: Request) -> None:
    if request.headers.get("sec-fetch-site", "same-origin") not in _HERE:
        raise Forbidden("only this node's own page may do this")


async def _form(request: Request) -> dict[str, str]:
    """A small form's fields."""
    settings = node_of(request).settings
    body = bytearray()
    async for chunk in body_chunks(request, limit="small_request_bytes", settings=settings):
        body += chunk
    return dict(parse_qsl(body.decode("utf-8", "replace"), max_num_fields=8))
