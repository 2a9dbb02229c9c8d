"""The calls of the interface as values: what to send, whoever sends it."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

import orjson

from memlane.shapes import Durability, Line, Ref

JSON: Final = "application/json"
NDJSON: Final = "application/x-ndjson"


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One request, safe to send more than once.

    Attributes:
        path: with its query string.
        follow: whether a reader's word on where the writer is may be followed.
    """

    method: str
    path: str
    body: bytes | None = None
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    follow: bool = False


def read(path: str, **parameters: int | str | None) -> Call:
    """A GET."""
    return Call("GET", path + _query(parameters))


def post(path: str, fields: Mapping[str, Any]) -> Call:
    """A POST of the fields that are given (not None), which changes nothing."""
    given = {name: value for name, value in fields.items() if value is not None}
    return Call("POST", path, orjson.dumps(given), {"content-type": JSON})


def search(q: str, kinds: Sequence[str] | None, fields: Mapping[str, Any]) -> Call:
    """`POST /v1/search`."""
    return post("/v1/search", {"q": q, "kinds": list(kinds) if kinds else None, **fields})


def get(refs: Iterable[Ref | tuple[str, str]], max_bytes: int | None) -> Call:
    """`POST /v1/documents:get`."""
    named = [
        {"kind": each[0], "ref": each[1]}
        if isinstance(each, tuple)
        else {"kind": each["kind"], "ref": each["ref"]}
        for each in refs
    ]
    return post("/v1/documents:get", {"refs": named, "max_bytes": max_bytes})


def batch(
    lines: Iterable[Line] | bytes,
    *,
    atomic: bool,
    durability: Durability,
    idempotency_key: str | None,
) -> Call:
    """`POST /v1/documents:batch`.

    Its attempts share one key. The next call has another one, even for the same lines: between
    the two somebody may have changed what they say.
    """
    if not isinstance(lines, bytes):
        lines = b"".join(orjson.dumps(line) + b"\n" for line in lines)
    query = _query({"atomic": "true" if atomic else "false", "durability": durability})
    key = idempotency_key or uuid.uuid4().hex
    headers = {"content-type": NDJSON, "idempotency-key": key}
    return Call("POST", f"/v1/documents:batch{query}", lines, headers, follow=True)


def bucket(prefix: str, min_version: int | None) -> Call:
    """`GET /v1/manifest/{bucket}`."""
    return read(f"/v1/manifest/{quote(prefix, safe='')}", min_version=min_version)


def _query(parameters: Mapping[str, int | str | None]) -> str:
    given = [
        f"{name}={quote(str(value), safe='')}"
        for name, value in parameters.items()
        if value is not None
    ]
    return f"?{'&'.join(given)}" if given else ""
