"""Answers made of rows: as JSON or Markdown, with what they cost, within a number of tokens."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.http.fields import Fields
from service.http.markdown import MEDIA_TYPE
from service.search.layers import Figures
from service.text.tokens import bound_tokens, estimate_tokens

LIMIT_LEAST: Final = 400
"""Least `limit_tokens`: an answer without rows fits into it."""
LIMIT_MOST: Final = 1_000_000

Body = dict[str, Any]
Render = Callable[[Mapping[str, Any]], str]


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """An answer of which as much is given as fits.

    Attributes:
        body: the answer with this many rows, less its `tokens`; says what it leaves out.
        full: what the documents of so many rows cost whole, estimated tokens.
        rows: most rows.
        markdown: the answer as Markdown.
    """

    body: Callable[[int], Body]
    full: Callable[[int], int]
    rows: int
    markdown: Render

    def text(self, render: Render, limit_tokens: int | None) -> str:
        """As many rows as fit, rendered.

        Args:
            render: `as_json`, or the reply's own `markdown`.
            limit_tokens: most tokens; see `bound_tokens` for what that is worth.
        """
        whole = self._with(self.rows, render)
        if limit_tokens is None or bound_tokens(whole) <= limit_tokens:
            return whole
        low, high = 0, self.rows
        while low < high - 1:
            middle = (low + high) // 2
            if bound_tokens(self._with(middle, render)) <= limit_tokens:
                low = middle
            else:
                high = middle
        return self._with(low, render)

    def _with(self, rows: int, render: Render) -> str:
        body, full = self.body(rows), self.full(rows)
        # What is said about the answer is part of it: once to see how long it gets, once for good.
        shown = estimate_tokens(render(body | {"tokens": Figures(full, full).body()}))
        return render(body | {"tokens": Figures(shown, full).body()})


def as_json(body: Mapping[str, Any]) -> str:
    """An answer as JSON."""
    return orjson.dumps(body).decode()


def limit_of(fields: Fields) -> int | None:
    """`limit_tokens`.

    Raises:
        InvalidRequest: it is not a number within its bounds.
    """
    return fields.integer("limit_tokens", None, least=LIMIT_LEAST, most=LIMIT_MOST)


def answer(
    request: Request,
    reply: Reply,
    limit_tokens: int | None,
    *,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """A reply in the form that the request accepts."""
    markdown = wants_markdown(request)
    text = reply.text(reply.markdown if markdown else as_json, limit_tokens)
    media_type = f"{MEDIA_TYPE}; charset=utf-8" if markdown else "application/json"
    return Response(text, headers={**(headers or {}), "vary": "Accept"}, media_type=media_type)


def wants_markdown(request: Request) -> bool:
    """Whether `Accept` names Markdown, and JSON not before it (RFC 9110, section 12.5.1)."""
    worth = {MEDIA_TYPE: 0.0, "application/json": 0.0}
    for each in ",".join(request.headers.getlist("accept")).split(","):
        name, *parameters = (part.strip() for part in each.split(";"))
        if name.lower() in worth:
            worth[name.lower()] = _quality(parameters)
    return 0 < worth[MEDIA_TYPE] >= worth["application/json"]


def _quality(parameters: Sequence[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0


def lean_index(block: Mapping[str, object]) -> Body:
    """What every answer says about its index: `version` and `age_ms`."""
    return {name: block[name] for name in ("version", "age_ms")}
