"""`/v1/documents:batch` writes documents, `/v1/documents:get` reads them back whole."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import Any, Final

import orjson
from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest
from service.http.answers import index_block, json_answer
from service.http.auth import tenant_with
from service.http.batch import Batch, read_batch
from service.http.fields import Fields, read_flag
from service.http.node import Durability, Node, Opened, WriterParts, node_of, writer_of
from service.http.problems import InvalidBatch
from service.http.requests import body_chunks, query_fields, read_fields
from service.http.snapshots import read_file
from service.index import carried
from service.index.document import Document
from service.index.writer import BatchResult
from service.tenancy.records import Tenant
from service.tenancy.registry import now_ms

_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")
_TEXTS: Final = ("title", "summary", "meta", "note")
"""A document's texts in the order in which they are given room: the long one last."""


async def write(request: Request) -> Response:
    """`POST /v1/documents:batch`: NDJSON of upserts and deletes, one line each."""
    node = node_of(request)
    tenant = await tenant_with(node, request, "sync")
    writer = writer_of(node)
    fields = query_fields(request, {"atomic": read_flag, "durability": str})
    atomic = fields.flag("atomic", True)
    durability = _durability(fields)
    fields.done()
    key = _idempotency_key(request)
    # One place for reading and applying: memory is bounded by places times `request_bytes`.
    async with node.batches.enter():
        batch = await read_batch(
            body_chunks(request, limit="request_bytes", settings=node.settings),
            settings=node.settings,
            now_ms=now_ms(),
            atomic=atomic,
        )
        if atomic and batch.refused:
            raise InvalidBatch(batch.reports, batch.refused)
        apply = partial(_apply, writer, tenant, batch, key, durability)
        result = await node.batches.thread(apply)
    return json_answer(_batch_answer(batch, result))


def _apply(
    writer: WriterParts, tenant: Tenant, batch: Batch, key: str | None, durability: Durability
) -> BatchResult:
    return writer.tenants.apply(
        tenant.file,
        batch.operations,
        idempotency_key=key,
        body_digest=batch.digest,
        durability=durability,
    )


def _batch_answer(batch: Batch, result: BatchResult) -> dict[str, object]:
    counts: dict[str, int] = dict(Counter(line.result for line in result.results))
    if batch.refused:
        counts["refused"] = batch.refused
    lines: list[dict[str, Any]] = [
        {
            "line": line.line,
            "kind": line.kind,
            "ref": line.ref,
            "result": line.result,
            **({"kept": True} if batch.refused else {}),
        }
        for line in result.results
    ]
    lines += [{**report, "result": "refused", "kept": False} for report in batch.reports]
    lines.sort(key=lambda line: line["line"])
    return {
        "version": result.version,
        "replayed": result.replayed,
        "counts": counts,
        **({"vectors": {"carried": result.carried, "kept": result.kept}} if result.carried else {}),
        "results": lines,
    }


async def get(request: Request) -> Response:
    """`POST /v1/documents:get`: whole documents by kind and ref, within a number of bytes."""
    node = node_of(request)
    settings = node.settings
    tenant = await tenant_with(node, request, "search")
    fields = await read_fields(request, settings)
    keys = [_key(node, item) for item in fields.objects("refs", most=settings.get_refs)]
    if not keys:
        raise InvalidRequest("`refs` names no document", hint='Send {"refs": [{"kind", "ref"}]}.')
    most_bytes = fields.integer("max_bytes", settings.get_bytes, least=1, most=settings.get_bytes)
    vectors = fields.flag("vectors", False)
    fields.done()
    read = partial(_get, keys, most_bytes, vectors)
    return json_answer(await read_file(node, tenant, read))


def _get(
    keys: list[tuple[str, str]], most_bytes: int, vectors: bool, opened: Opened
) -> dict[str, object]:
    """Fill an answer until it is full; what was cut or left out is said by name."""
    room = most_bytes
    documents, missing, cut, left_out = [], [], [], []
    for kind, ref in dict.fromkeys(keys):
        name: dict[str, Any] = {"kind": kind, "ref": ref}
        if room <= 0:
            left_out.append(name)
            continue
        (document,) = opened.reader.get([(kind, ref)])
        if document is None:
            missing.append(name)
            continue
        if _json_bytes(document.title) + _json_bytes(document.identifiers) > room:
            left_out.append(name)
            room = 0  # what comes after is left out too, so that the order asked for holds
            continue
        shown, cuts = _fit(document, room)
        room -= sum(_json_bytes(shown[field]) for field in (*_TEXTS, "identifiers"))
        if vectors and (found := opened.reader.carried(kind, ref)) is not None:
            packed = carried.shape(found)
            if (size := _json_bytes(packed)) <= room:
                shown["vectors"] = packed
                room -= size
            else:
                cuts.append({"field": "vectors", "chars": 0, "of_chars": size})
        documents.append(shown)
        cut += [{**name, **each} for each in cuts]
    return {
        "documents": documents,
        "missing": missing,
        "cut": cut,
        "left_out": left_out,
        "index": index_block(opened),
    }


def _fit(document: Document, room: int) -> tuple[dict[str, Any], list[dict[str, object]]]:
    """A document whose texts take at most `room` bytes of JSON, and what that cost."""
    shown: dict[str, Any] = {
        "kind": document.kind,
        "ref": document.ref,
        "updated_at": document.updated_at,
        "identifiers": list(document.identifiers),
    }
    cuts: list[dict[str, object]] = []
    room -= _json_bytes(shown["identifiers"])
    for field in _TEXTS:
        text: str = getattr(document, field)
        shown[field] = part = _head(text, room)
        room -= _json_bytes(part)
        if len(part) < len(text):
            cuts.append({"field": field, "chars": len(part), "of_chars": len(text)})
    return shown, cuts


def _head(text: str, room: int) -> str:
    """The longest beginning of a text that takes at most `room` bytes as a JSON string."""
    if _json_bytes(text) <= room:
        return text
    low, high = 0, min(len(text), max(room, 0))
    while low < high:
        middle = (low + high + 1) // 2
        if _json_bytes(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    return text[:low]


def _json_bytes(value: object) -> int:
    return len(orjson.dumps(value))


def _key(node: Node, fields: Fields) -> tuple[str, str]:
    settings = node.settings
    kind = fields.text("kind", most_chars=settings.kind_bytes, limit="kind_bytes")
    ref = fields.text("ref", most_chars=settings.ref_bytes, limit="ref_bytes")
    fields.done()
    return kind, ref


def _durability(fields: Fields) -> Durability:
    wanted = fields.choice("durability", "local", among=("local", "replicated"))
    return "replicated" if wanted == "replicated" else "local"


def _idempotency_key(request: Request) -> str | None:
    found = request.headers.getlist("idempotency-key")
    if not found:
        return None
    if len(found) > 1:
        raise InvalidRequest("there is more than one Idempotency-Key")
    if not _IDEMPOTENCY_KEY.fullmatch(found[0]):
        raise InvalidRequest(
            "the Idempotency-Key is not 1 to 255 visible ASCII characters",
            hint="A random UUID for each new request is a good one.",
        )
    return found[0]
