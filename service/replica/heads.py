"""The heads document: what a shard's writer has replicated, in one small object.

    {"shard": "0", "seq": 17, "published_at": 1796080393477, "put_ms": 4, "registry": "<file>",
     "term": 7, "owner": "<folder>/<process>",
     "tenants": {"<file>": {"epoch": 1, "txid": 42, "version": 40, "committed_at": ...,
                            "lag_ms": 120}}}

`seq` grows by one with each publication, across restarts. An entry's `version` is at most what
transaction `txid` holds. `lag_ms` is there only when the file has commits that are not replicated
yet: how long the oldest of them had waited when the document was made. It is a duration, so a
reader needs no agreement of clocks to stay honest about them. So is `put_ms`: the longest that
writing this object took of late; the document was made that long before it appeared.

`term` and `owner` say under which ownership of the shard it was written (see `lease`). A new owner
first rewrites the document with its own, and with the same `seq`: for readers nothing has changed,
and every later conditional write of its predecessor fails. `url` is where batches of this shard are
taken, as its owner was told.

An entry with `moved_to` is sealed: nobody writes this epoch of the file any more, in this shard or
under a later owner of it, and the shard named there takes the file over (see `handover`).
"""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson

from service.errors import ReplicationError
from service.replica.names import check_file


@dataclasses.dataclass(frozen=True, slots=True)
class Head:
    """What is replicated of one file. Times are Unix milliseconds, `lag_ms` is a duration."""

    epoch: int
    txid: int
    version: int
    committed_at: int
    lag_ms: int = 0
    moved_to: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Heads:
    """One publication of a shard."""

    shard: str
    seq: int
    published_at: int
    tenants: dict[str, Head]
    registry: str | None = None
    put_ms: int = 0
    term: int = 0
    owner: str = ""
    url: str = ""


def encode(heads: Heads) -> bytes:
    """The document as JSON."""
    tenants = {}
    for file, head in heads.tenants.items():
        entry = dataclasses.asdict(head)
        if not head.lag_ms:
            del entry["lag_ms"]
        if not head.moved_to:
            del entry["moved_to"]
        tenants[file] = entry
    return orjson.dumps(
        ({"url": heads.url} if heads.url else {})
        | {
            "shard": heads.shard,
            "seq": heads.seq,
            "published_at": heads.published_at,
            "put_ms": heads.put_ms,
            "term": heads.term,
            "owner": heads.owner,
            "registry": heads.registry,
            "tenants": tenants,
        }
    )


def decode(body: bytes) -> Heads:
    """Read a document.

    Raises:
        ReplicationError: it is not one.
    """
    try:
        raw = orjson.loads(body)
        tenants = {check_file(file): _head(entry) for file, entry in raw["tenants"].items()}
        registry = raw.get("registry")
        return Heads(
            shard=str(raw["shard"]),
            seq=_natural(raw["seq"]),
            published_at=_natural(raw["published_at"]),
            put_ms=_natural(raw.get("put_ms", 0)),
            tenants=tenants,
            registry=None if registry is None else check_file(registry),
            term=_natural(raw.get("term", 0)),
            owner=str(raw.get("owner", "")),
            url=str(raw.get("url", "")),
        )
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError, ValueError) as error:
        raise ReplicationError("the heads document cannot be read") from error


def _head(entry: dict[str, Any]) -> Head:
    return Head(
        epoch=_natural(entry["epoch"]),
        txid=_natural(entry["txid"]),
        version=_natural(entry["version"]),
        committed_at=_natural(entry["committed_at"]),
        lag_ms=_natural(entry.get("lag_ms", 0)),
        moved_to=str(entry.get("moved_to", "")),
    )


def _natural(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(value)
    return value
