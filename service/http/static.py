"""The files of our pages: `service/web/`, read once, served with strict headers.

All files are addressed under one digest of them all, `/web/<digest>/page.js`, so they never change
where they are: browsers keep them for good, and modules find each other by relative paths. A page
names the digest where its text says `{{web}}`. There is no build step.
"""

from __future__ import annotations

import dataclasses
import hashlib
import mimetypes
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from service.errors import NotFound

FOR_GOOD: Final = "public, max-age=31536000, immutable"
DIGEST_BYTES: Final = 8
CONTENT_POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Nothing inline, nothing from elsewhere, no text that becomes markup (CSP 3, Trusted Types)."""
SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "content-security-policy": CONTENT_POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


@dataclasses.dataclass(frozen=True, slots=True)
class File:
    """One file: its bytes, media type, and entity tag with quotes."""

    body: bytes
    media_type: str
    etag: str


@dataclasses.dataclass(frozen=True, slots=True)
class Web:
    """All files by path below `service/web/`, and the digest they are addressed under."""

    files: Mapping[str, File]
    digest: str


@cache
def web() -> Web:
    """The packaged files."""
    texts = dict(sorted(_walk(files("service") / "web", "")))
    digest = _digest(*(part for path, body in texts.items() for part in (path.encode(), body)))
    base = f"/web/{digest}".encode()
    return Web(
        {path: _file(path, body.replace(b"{{web}}", base)) for path, body in texts.items()}, digest
    )


def page(request: Request, path: str) -> Response:
    """A page of `service/web/`; the browser asks each time whether it changed.

    Raises:
        NotFound: there is no such file.
    """
    return _answer(request, path, "no-cache")


async def asset(request: Request) -> Response:
    """`GET /web/{digest}/{path}`; under an earlier release's digest, this one's file for now."""
    current = request.path_params["digest"] == web().digest
    return _answer(request, request.path_params["path"], FOR_GOOD if current else "no-cache")


def _answer(request: Request, path: str, keeping: str) -> Response:
    if (file := web().files.get(path)) is None:
        raise NotFound("there is no such file")
    headers = {**SECURITY_HEADERS, "cache-control": keeping, "etag": file.etag}
    known = request.headers.get("if-none-match", "")
    if file.etag in (tag.strip().removeprefix("W/") for tag in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


def _file(path: str, body: bytes) -> File:
    media_type = mimetypes.guess_type(path)[0] or "application/octet-stream"
    return File(body, media_type, f'"{_digest(body)}"')


def _digest(*parts: bytes) -> str:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()
