"""Signed cookies: who signed in on a page, without anything kept on this side.

A cookie is `v1.<subject>.<expires, s since 1970>.<signature>`. It is signed with a key derived from
the node's secret and from a scope, so a cookie of one page is nothing to another, and every node of
a fleet reads what any of them issued. It names its subject and proves nothing else: whether the
subject may still do something is asked at each request.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

VALUE_CHARS: Final = 1_024
"""Longest cookie that is looked at; one of ours has about 150 characters."""
OWN_PAGE: Final = "memlane-page"
"""Header that our pages send with every call."""

_COOKIE: Final = re.compile(r"v1\.([A-Za-z0-9_-]+)\.([0-9]{1,12})\.([0-9a-f]{64})")


def issue(secret: bytes, subject: str, scope: str, now_s: int, ttl_s: int) -> str:
    """A cookie's value.

    Args:
        secret: the node's, as `RegistryView.derived` gives it.
        subject: whom it names; any text.
        scope: what it is for; `read` must name the same.
        now_s: the present, s since 1970.
        ttl_s: for how long it is good, s.
    """
    name = base64.urlsafe_b64encode(subject.encode()).rstrip(b"=").decode()
    signed = f"v1.{name}.{now_s + ttl_s}"
    return f"{signed}.{_signature(secret, scope, signed)}"


def read(secret: bytes, value: str, scope: str, now_s: int) -> str | None:
    """The subject of a cookie; None when it is not ours, not for this scope, or has expired."""
    if len(value) > VALUE_CHARS or (match := _COOKIE.fullmatch(value)) is None:
        return None
    name, expires_s, signature = match.groups()
    signed = value[: match.start(3) - 1]
    if not hmac.compare_digest(_signature(secret, scope, signed), signature):
        return None
    if int(expires_s) <= now_s:
        return None
    try:
        return base64.urlsafe_b64decode(name + "=" * (-len(name) % 4)).decode()
    except (binascii.Error, UnicodeDecodeError):  # signed by us, so never seen
        return None


def attach(response: Response, request: Request, name: str, value: str, ttl_s: int) -> None:
    """Put a cookie on an answer: for scripts and other sites out of reach, for https where it is.

    Args:
        response: the answer.
        request: what it answers; its scheme decides on `Secure`.
        name: the cookie's, without prefix.
        value: from `issue`.
        ttl_s: for how long the browser keeps it, s.
    """
    response.set_cookie(
        _full_name(request, name),
        value,
        max_age=ttl_s,
        path="/",
        secure=_secure(request),
        httponly=True,
        samesite="strict",
    )


def discard(response: Response, request: Request, name: str) -> None:
    """Have the browser forget a cookie."""
    attach(response, request, name, "", 0)


def value_of(request: Request, name: str) -> str | None:
    """What the browser sent under this name, unread."""
    return request.cookies.get(_full_name(request, name))


def from_own_page(request: Request) -> bool:
    """Whether a page of this node made the request, so that its cookie counts.

    Another site can make a browser send requests here, not with a header of its own: that takes a
    preflight, which nothing here answers. Browsers say so themselves too, where they do
    (Fetch Metadata); on plain http beyond this machine they do not.
    """
    site = request.headers.get("sec-fetch-site", "same-origin")
    return request.headers.get(OWN_PAGE) == "1" and site == "same-origin"


def _signature(secret: bytes, scope: str, signed: str) -> str:
    key = hmac.digest(secret, b"cookie " + scope.encode(), hashlib.sha256)
    return hmac.digest(key, signed.encode(), hashlib.sha256).hex()


def _secure(request: Request) -> bool:
    return request.url.scheme == "https"


def _full_name(request: Request, name: str) -> str:
    """The prefix makes browsers refuse the cookie from a neighbouring subdomain."""
    return f"__Host-{name}" if _secure(request) else name
