"""`/v1/documents:batch`: writes documents."""

from __future__ import annotations

import re
from collections import Counter
from functools import partial
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from service.errors import InvalidRequest
from service.http.answers import json_answer
from service.http.auth import tenant_with
from service.http.batch import Batch, read_batch
from service.http.fields import Fields, read_flag
from service.http.node import Durability, WriterParts, node_of, writer_of
from service.http.problems import InvalidBatch
from service.http.requests import body_chunks, query_fields
from service.index.writer import BatchResult
from service.tenancy.records import Tenant
from service.tenancy.registry import now_ms

_IDEMPOTENCY_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


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
        with node.telemetry.span("sync"):
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
