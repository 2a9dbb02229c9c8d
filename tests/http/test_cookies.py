"""Signed cookies: good until they expire, and nothing else is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import Response

from service.http import cookies

SECRET, NOW_S = b"s" * 32, 1_800_000_000
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)


def request(scheme: str = "http", **headers: str) -> Request:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/", "headers": raw}
    return Request(scope | {"scheme": scheme, "server": ("node", 80), "query_string": b""})


@given(texts, texts, st.integers(1, 10**9))
def test_what_was_issued_is_read_until_it_expires(subject: str, scope: str, ttl_s: int) -> None:
    value = cookies.issue(SECRET, subject, scope, NOW_S, ttl_s)
    assert cookies.read(SECRET, value, scope, NOW_S + ttl_s - 1) == subject
    assert cookies.read(SECRET, value, scope, NOW_S + ttl_s) is None


@given(texts, texts)
def test_another_scope_and_another_secret_read_nothing(scope: str, other: str) -> None:
    value = cookies.issue(SECRET, "x", scope, NOW_S, 60)
    assert cookies.read(b"t" * 32, value, scope, NOW_S) is None
    if other != scope:
        assert cookies.read(SECRET, value, other, NOW_S) is None


@given(st.data())
def test_a_cookie_changed_anywhere_is_not_ours(data: st.DataObject) -> None:
    value = cookies.issue(SECRET, "subject", "page", NOW_S, 60)
    at = data.draw(st.integers(0, len(value) - 1))
    other = data.draw(st.characters(codec="ascii").filter(lambda char: char != value[at]))
    assert cookies.read(SECRET, value[:at] + other + value[at + 1 :], "page", NOW_S) is None


@given(st.text(max_size=200))
def test_whatever_is_sent_is_read_as_nothing(value: str) -> None:
    assert cookies.read(SECRET, value, "page", NOW_S) is None


def test_a_later_end_cannot_be_written_in() -> None:
    value = cookies.issue(SECRET, "subject", "page", NOW_S, 60)
    later = value.replace(str(NOW_S + 60), str(NOW_S + 600))
    assert later != value
    assert cookies.read(SECRET, later, "page", NOW_S + 120) is None


@pytest.mark.parametrize(("scheme", "name"), [("http", "memlane"), ("https", "__Host-memlane")])
def test_a_cookie_is_kept_from_scripts_and_other_sites(scheme: str, name: str) -> None:
    answer = Response()
    cookies.attach(answer, request(scheme), "memlane", "value", 60)
    first, *rest = answer.headers["set-cookie"].split("; ")
    assert first == f"{name}=value"
    secure = {"Secure"} if scheme == "https" else set()
    assert set(rest) == {"HttpOnly", "Max-Age=60", "Path=/", "SameSite=strict"} | secure
    sent = request(scheme, cookie=f"{name}=value")
    assert cookies.value_of(sent, "memlane") == "value"


def test_over_https_a_cookie_without_the_prefix_does_not_count() -> None:
    assert cookies.value_of(request("https", cookie="memlane=value"), "memlane") is None


def test_a_discarded_cookie_is_gone_at_once() -> None:
    answer = Response()
    cookies.discard(answer, request(), "memlane")
    assert "Max-Age=0" in answer.headers["set-cookie"]


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"memlane_page": "1", "sec_fetch_site": "same-origin"}, True),
        ({"memlane_page": "1"}, True),  # plain http beyond this machine: no Fetch Metadata
        ({"memlane_page": "1", "sec_fetch_site": "cross-site"}, False),
        ({"memlane_page": "1", "sec_fetch_site": "same-site"}, False),
        ({"memlane_page": "1", "sec_fetch_site": "none"}, False),
        ({"sec_fetch_site": "same-origin"}, False),
        ({}, False),
    ],
)
def test_only_a_page_of_this_node_is_believed(headers: dict[str, str], own: bool) -> None:
    assert cookies.from_own_page(request(**headers)) is own
