"""What can go wrong, as a caller of the client sees it.

MemlaneError
├── Unreachable             nobody answered, after all attempts
├── BadAnswer               an answer that is not Memlane's, or is over a limit
└── Refused                 an answer that is an error (problem+json, RFC 9457)
├── InvalidRequest      what was sent cannot be taken
│   ├── TooLarge        it is over a limit, which it names
│   └── InvalidBatch    lines were refused, so nothing was kept
├── Unauthorized        no key, or one that does not work
├── Forbidden           the key lacks a right, or its tenant is suspended
├── NotFound
├── Conflict            with what is there, or of an idempotency key
├── ReplicaBehind       the replica is older than was asked for
├── NotTheWriter        another node takes this
└── Unavailable         not now; the same may succeed later
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

PREFIX: Final = "/v1/problems/"


class MemlaneError(Exception):
    """Base of all errors of the client.

    Attributes:
        detail: what happened, one sentence.
        hint: what to do next, one sentence; may be empty.
    """

    def __init__(self, detail: str, *, hint: str = "") -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = hint


class Unreachable(MemlaneError):
    """Nobody answered, in all attempts."""


class BadAnswer(MemlaneError):
    """The answer is not one of Memlane's, or is longer than `Limits.answer_bytes`."""


class Refused(MemlaneError):
    """The service answered with an error.

    Attributes:
        status: of HTTP.
        type: the problem's address, `/v1/problems/<slug>`; `about:blank` when it has none.
        title: what kind of problem it is.
        request_id: what to tell an operator; empty when unknown.
        fields: all that the problem says.
    """

    def __init__(self, status: int, fields: Mapping[str, Any]) -> None:
        super().__init__(
            str(fields.get("detail") or f"the service answered {status}"),
            hint=str(fields.get("hint", "")),
        )
        self.status = status
        self.type = str(fields.get("type", "about:blank"))
        self.title = str(fields.get("title", ""))
        self.request_id = str(fields.get("request_id", ""))
        self.fields = dict(fields)

    def _whole(self, name: str) -> int | None:
        value = self.fields.get(name)
        return value if isinstance(value, int) else None


class InvalidRequest(Refused):
    """What was sent cannot be taken."""


class TooLarge(InvalidRequest):
    """Something is over a limit."""

    @property
    def limit(self) -> str:
        """The setting's name."""
        return str(self.fields.get("limit", ""))


class InvalidBatch(InvalidRequest):
    """Lines of a batch were refused, so nothing of it was kept."""

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The first refused lines: `line`, `error`, `hint`."""
        found = self.fields.get("lines")
        return found if isinstance(found, list) else []


class Unauthorized(Refused):
    """No key, or one that does not work."""


class Forbidden(Refused):
    """The key lacks a right, or its tenant is suspended."""


class NotFound(Refused):
    """There is no such thing."""


class Conflict(Refused):
    """It conflicts with what is there, or an idempotency key was used for something else."""


class ReplicaBehind(Refused):
    """The replica is older than was asked for."""

    @property
    def version(self) -> int | None:
        """The index version it has."""
        return self._whole("version")

    @property
    def age_ms(self) -> int | None:
        """How old its knowledge is."""
        return self._whole("age_ms")


class NotTheWriter(Refused):
    """Another node takes this."""

    @property
    def writer_url(self) -> str | None:
        """Where, when the node knows."""
        found = self.fields.get("writer_url")
        return found if isinstance(found, str) else None


class Unavailable(Refused):
    """Not able to answer now; the same may succeed later."""

    @property
    def retry_after_s(self) -> int | None:
        """Seconds to wait."""
        return self._whole("retry_after_s")


_BY_SLUG: Final[Mapping[str, type[Refused]]] = {
    "replica-behind": ReplicaBehind,
    "invalid-batch": InvalidBatch,
    "too-large": TooLarge,
}
_BY_STATUS: Final[Mapping[int, type[Refused]]] = {
    400: InvalidRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    405: InvalidRequest,
    408: Unavailable,
    409: Conflict,
    413: TooLarge,
    415: InvalidRequest,
    421: NotTheWriter,
    422: InvalidRequest,
    429: Unavailable,
    502: Unavailable,
    503: Unavailable,
    504: Unavailable,
}


def refused(status: int, fields: Mapping[str, Any]) -> Refused:
    """The error that stands for an answer."""
    slug = str(fields.get("type", "")).removeprefix(PREFIX)
    cls = _BY_SLUG.get(slug) or _BY_STATUS.get(status, Refused)
    return cls(status, fields)
