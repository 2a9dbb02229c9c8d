"""What answers have in common."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.http.middleware import STATE_PHASES
from service.http.node import Opened


def json_answer(
    body: Mapping[str, object], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """A JSON answer."""
    return Response(orjson.dumps(body), status, headers, media_type="application/json")


def index_block(opened: Opened) -> dict[str, object]:
    """The `index` object of an answer: what it was answered from, and how old that is."""
    return {
        "version": opened.reader.version,
        "as_of": iso_time(opened.as_of_ms),
        "age_ms": opened.age_ms,
        "docs": opened.reader.docs,
        "temperature": opened.temperature,
    }


def iso_time(ms: int) -> str:
    """RFC 3339 in UTC with milliseconds, from ms since 1970."""
    moment = datetime.fromtimestamp(ms / 1_000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def note_phases(request: Request, took_ms: Mapping[str, float]) -> None:
    """Show these phases in `Server-Timing`."""
    getattr(request.state, STATE_PHASES).update(took_ms)
