"""What can go wrong, as callers see it: problem+json (RFC 9457).

One table maps every error class to its slug, status and title; `docs/ERRORS.md` is that table. A
class without a row of its own takes its nearest ancestor's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

import orjson
from starlette.responses import Response

from service import errors
from service.errors import InvalidRequest, MemlaneError

TYPE_PREFIX: Final = "/v1/problems/"
"""A problem's `type` is a URI reference to `GET /v1/problems/<slug>` on the same node."""


class MethodNotAllowed(InvalidRequest):
    """The address exists and does not take this method.

    Attributes:
        allow: the methods it takes.
    """

    def __init__(self, detail: str, *, allow: tuple[str, ...]) -> None:
        super().__init__(detail, hint=f"Use {' or '.join(allow)}.")
        self.allow = allow


class UnsupportedEncoding(InvalidRequest):
    """The body is compressed in a way this service does not read."""

    hint_default = "Send the body without Content-Encoding."


class SlowRequest(InvalidRequest):
    """The body did not arrive in time."""

    hint_default = "Send smaller bodies, or use a faster connection."


class InvalidBatch(InvalidRequest):
    """Lines of an atomic batch were refused, so nothing was kept.

    Attributes:
        lines: the refused lines: number, error, hint.
        refused: how many there are; `lines` may hold fewer.
    """

    def __init__(self, lines: list[dict[str, object]], refused: int) -> None:
        super().__init__(
            f"{refused} lines were refused, so nothing was kept",
            hint="Correct these lines and send the batch again, or send it with ?atomic=false.",
        )
        self.lines = lines
        self.refused = refused


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """One row of the table: the last part of `type`, the HTTP status, the title."""

    slug: str
    status: int
    title: str


PROBLEMS: Final[Mapping[type[MemlaneError], Problem]] = {
    MemlaneError: Problem("internal", 500, "Something failed on our side"),
    InvalidRequest: Problem("invalid-request", 400, "The request cannot be read"),
    errors.InvalidDocument: Problem("invalid-document", 422, "A document cannot be taken"),
    errors.InvalidCursor: Problem("invalid-cursor", 400, "The cursor cannot be used"),
    errors.TooLarge: Problem("too-large", 413, "Something is over a limit"),
    InvalidBatch: Problem("invalid-batch", 422, "Lines of the batch were refused"),
    MethodNotAllowed: Problem("method-not-allowed", 405, "The address takes other methods"),
    UnsupportedEncoding: Problem("unsupported-encoding", 415, "The body's encoding is not read"),
    SlowRequest: Problem("slow-request", 408, "The body did not arrive in time"),
    errors.Unauthorized: Problem("unauthorized", 401, "A valid key is needed"),
    errors.Forbidden: Problem("forbidden", 403, "The key lacks a right"),
    errors.TenantSuspended: Problem("tenant-suspended", 403, "The tenant is suspended"),
    errors.NotFound: Problem("not-found", 404, "There is no such thing"),
    errors.Conflict: Problem("conflict", 409, "It conflicts with what is there"),
    errors.ReplicaBehind: Problem("replica-behind", 409, "The replica is older than asked for"),
    errors.NotTheWriter: Problem("not-the-writer", 421, "Another node takes this"),
    errors.Unavailable: Problem("unavailable", 503, "Not able to answer now"),
    errors.IndexFileError: Problem("index-unusable", 503, "The tenant's index cannot be used"),
    errors.IndexTooNew: Problem("index-too-new", 503, "The index is newer than this node"),
    errors.IndexTooOld: Problem("index-too-old", 503, "The index is older than this node"),
    errors.IndexCorrupt: Problem("index-corrupt", 503, "The index failed its checks"),
    errors.ReplicationError: Problem("replication", 503, "Replication failed"),
    errors.InvalidSetting: Problem("invalid-setting", 500, "A setting makes no sense"),
    errors.SetupError: Problem("setup", 500, "This node lacks something it needs"),
}

_EXTRAS: Final = ("limit", "version", "age_ms", "lines", "refused", "writer_url")
"""Attributes of errors that go into the body as they are."""


def problem_of(error: type[MemlaneError]) -> Problem:
    """The row of an error class, or of its nearest ancestor that has one."""
    return next(PROBLEMS[cls] for cls in error.__mro__ if cls in PROBLEMS)


def problem_response(error: MemlaneError, request_id: str) -> Response:
    """The answer that tells a caller about an error."""
    problem = problem_of(type(error))
    body: dict[str, object] = {
        "type": TYPE_PREFIX + problem.slug,
        "title": problem.title,
        "status": problem.status,
        "detail": error.detail,
        "hint": error.hint,
        "request_id": request_id,
    }
    for name in _EXTRAS:
        if hasattr(error, name):
            body[name] = getattr(error, name)
    if isinstance(error, InvalidBatch):
        body["kept"] = False
    headers = {}
    if isinstance(error, errors.Unavailable):
        body["retry_after_s"] = error.retry_after_s
        headers["retry-after"] = str(error.retry_after_s)
    if isinstance(error, errors.Unauthorized):
        headers["www-authenticate"] = 'Bearer realm="memlane"'
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(error.allow)
    return Response(
        orjson.dumps(body, default=str),
        problem.status,
        headers,
        media_type="application/problem+json",
    )


def describe(slug: str) -> dict[str, object]:
    """What a problem's `type` address answers.

    Raises:
        NotFound: there is no such problem.
    """
    for cls, problem in PROBLEMS.items():
        if problem.slug == slug:
            return {
                "type": TYPE_PREFIX + slug,
                "title": problem.title,
                "status": problem.status,
                "meaning": _meaning(cls),
                "hint": cls.hint_default,
            }
    raise errors.NotFound("there is no such problem", hint="docs/ERRORS.md lists them all.")


def table() -> str:
    """All problems as a Markdown table, for `docs/ERRORS.md`."""
    rows = ["| type | status | title | meaning |", "| --- | ---: | --- | --- |"]
    rows += [
        f"| `{TYPE_PREFIX}{problem.slug}` | {problem.status} | {problem.title} | {_meaning(cls)} |"
        for cls, problem in PROBLEMS.items()
    ]
    return "\n".join(rows) + "\n"


def _meaning(cls: type[MemlaneError]) -> str:
    return (cls.__doc__ or "").split("\n", maxsplit=1)[0]
