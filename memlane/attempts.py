"""How often and where a call is sent: decided here, without sending anything.

`attempts` is a generator that both clients drive: it gives a `Send` or a `Pause`, and is told what
became of a `Send`.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Generator, Mapping
from typing import Any, Final

import httpx
import orjson

from memlane.calls import Call
from memlane.errors import BadAnswer, NotTheWriter, Refused, Unreachable, refused
from memlane.limits import Limits

RETRIED: Final = frozenset({408, 429, 502, 503, 504})
ERROR: Final = 400
MISDIRECTED: Final = 421


@dataclasses.dataclass(slots=True)
class Address:
    """Where the service is; for writes that may be another node."""

    reading: str
    writing: str


@dataclasses.dataclass(frozen=True, slots=True)
class Send:
    """Send the call to this URL now."""

    url: str


@dataclasses.dataclass(frozen=True, slots=True)
class Pause:
    """Wait so many seconds."""

    seconds: float


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """What came back."""

    status: int
    headers: httpx.Headers
    body: bytes

    def json(self) -> Any:
        """The body.

        Raises:
            BadAnswer: it is not JSON.
        """
        try:
            return orjson.loads(self.body)
        except orjson.JSONDecodeError:
            raise BadAnswer(
                f"the answer ({self.status}) is not JSON", hint="Is this a Memlane address?"
            ) from None

    def problem(self) -> Refused:
        """The error that an answer of status 400 or more stands for."""
        try:
            told = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            told = {}
        fields: Mapping[str, Any] = told if isinstance(told, dict) else {}
        return refused(self.status, fields)


Outcome = Answer | httpx.TransportError | None


def attempts(
    call: Call, address: Address, limits: Limits
) -> Generator[Send | Pause, Outcome, Answer]:
    """Send a call until it is answered.

    Returns:
        An answer of status below 400.

    Raises:
        Refused: the answer is an error that another attempt does not change.
        Unreachable: no attempt got an answer.
    """
    last: Refused | Unreachable | None = None
    for attempt in range(limits.attempts):
        if attempt:
            yield Pause(_pause(attempt, last, limits))
        outcome = yield Send((address.writing if call.follow else address.reading) + call.path)
        if outcome is not None and not isinstance(outcome, Answer):
            where = address.writing if call.follow else address.reading
            last = Unreachable(
                f"{where} does not answer ({type(outcome).__name__})", hint="Check the address."
            )
            continue
        assert outcome is not None
        if outcome.status < ERROR:
            return outcome
        problem = outcome.problem()
        if outcome.status == MISDIRECTED and call.follow and _redirected(problem, address):
            last = problem
            continue
        if outcome.status not in RETRIED:
            raise problem
        last = problem
        if (after := outcome.headers.get("retry-after", "")).isdecimal():
            problem.fields.setdefault("retry_after_s", int(after))
    assert last is not None
    raise last


def _redirected(problem: Refused, address: Address) -> bool:
    """Take over where the writer is, if that is news."""
    told = problem.writer_url if isinstance(problem, NotTheWriter) else None
    if told is None or told.rstrip("/") == address.writing:
        return False
    address.writing = told.rstrip("/")
    return True


def _pause(attempt: int, last: Refused | Unreachable | None, limits: Limits) -> float:
    """Before an attempt, in s; with jitter, so that many clients do not return at once."""
    if isinstance(last, NotTheWriter):
        return 0.0
    pause: float = limits.first_pause_s * 2.0 ** (attempt - 1)
    if isinstance(last, Refused):
        after = last.fields.get("retry_after_s")
        pause = max(pause, after if isinstance(after, int) else 0.0)
    return min(pause, limits.longest_pause_s) * random.uniform(0.5, 1.0)  # noqa: S311
