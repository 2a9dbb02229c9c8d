"""`/v1/manifest`: digests of what a tenant holds, for a sync that sends only what differs."""

from __future__ import annotations

import re
from functools import partial
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from service.errors import NotFound
from service.http.answers import index_block, json_answer
from service.http.auth import tenant_with
from service.http.fields import read_integer
from service.http.node import Opened, node_of
from service.http.requests import query_fields
from service.http.search import LAST_VERSION
from service.http.snapshots import read_file
from service.index import manifest

_BUCKET: Final = re.compile(r"[0-9a-f]{1,2}")


async def digests(request: Request) -> Response:
    """`GET /v1/manifest`: a digest for each bucket."""
    node = node_of(request)
    tenant = await tenant_with(node, request, "sync")
    found = await read_file(node, tenant, _digests, min_version=_min_version(request))
    return json_answer({"tenant": tenant.name, **found})


async def rows(request: Request) -> Response:
    """`GET /v1/manifest/{bucket}`: what the documents of a bucket are."""
    node = node_of(request)
    tenant = await tenant_with(node, request, "sync")
    bucket = request.path_params["bucket"]
    if not _BUCKET.fullmatch(bucket):
        raise NotFound("there is no such bucket", hint="A bucket is one or two hex digits.")
    work = partial(_rows, bucket, node.settings.manifest_rows)
    return json_answer(await read_file(node, tenant, work, min_version=_min_version(request)))


def _min_version(request: Request) -> int | None:
    fields = query_fields(request, {"min_version": read_integer})
    least = fields.integer("min_version", None, least=0, most=LAST_VERSION)
    fields.done()
    return least


def _digests(opened: Opened) -> dict[str, object]:
    return {
        "version": opened.reader.version,
        "documents": opened.reader.docs,
        "digests": [f"{digest:016x}" for digest in manifest.digests(opened.reader)],
        "index": index_block(opened),
    }


def _rows(bucket: str, most: int, opened: Opened) -> dict[str, object]:
    found = manifest.rows(opened.reader, bucket, most=most)
    return {
        "version": opened.reader.version,
        "rows": [[row.key.hex(), row.updated_at, row.content_hash.hex()] for row in found],
        "index": index_block(opened),
    }
