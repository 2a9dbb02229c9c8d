"""Where a page ended: a place in the total order of hits, bound to the query it belongs to."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import math

import orjson

from service.errors import InvalidCursor
from service.search.request import SearchRequest


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """After the hit with this score and row id, in this tier; `seen` hits came before.

    `rescored` says that the pages before were ordered by vectors too.
    """

    tier: int = 0
    score: float = math.inf
    row: int = 0
    seen: int = 0
    rescored: bool = False


START = Place()
#: What must stay the same from page to page; the page's size may change.
_BOUND = tuple(
    field.name
    for field in dataclasses.fields(SearchRequest)
    if field.name not in ("cursor", "limit", "explain")
)


def encode(place: Place, request: SearchRequest) -> str:
    """The cursor a client sends back."""
    packed = orjson.dumps([_fingerprint(request), *dataclasses.astuple(place)])
    return base64.urlsafe_b64encode(packed).decode().rstrip("=")


def decode(request: SearchRequest) -> Place:
    """Read the request's cursor; the start when it has none.

    Raises:
        InvalidCursor: not a cursor of ours, or of another query.
    """
    if request.cursor is None:
        return START
    try:
        raw = request.cursor.encode("ascii")
        fields = orjson.loads(base64.urlsafe_b64decode(raw + b"=" * (-len(raw) % 4)))
    except (binascii.Error, UnicodeEncodeError, orjson.JSONDecodeError):
        raise InvalidCursor("the cursor is not one that this service made") from None
    match fields:
        case [str(mark), int(tier), int() | float() as score, int(row), int(seen), bool(again)] if (
            0 <= tier < 1 << 16 and 0 <= row < 1 << 63 and 0 <= seen < 1 << 31
        ):
            if mark != _fingerprint(request):
                raise InvalidCursor("the cursor belongs to another query")
            return Place(tier, float(score), row, seen, again)
    raise InvalidCursor("the cursor is not one that this service made")


def _fingerprint(request: SearchRequest) -> str:
    packed = orjson.dumps([getattr(request, name) for name in _BOUND])
    return hashlib.blake2b(packed, digest_size=6).hexdigest()
