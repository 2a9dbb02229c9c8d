"""The search page's session: what its cookie opens, and what it does not."""

from __future__ import annotations

import time
from typing import Any

import pytest

from service.http import cookies
from service.http.auth import PAGE_COOKIE, PAGE_SCOPE
from service.tenancy.records import TenantState

OWN = {"memlane-page": "1", "sec-fetch-site": "same-origin"}


def sign_in(world: Any, scope: str = "search") -> Any:
    return world.reader.post("/session", json={"key": world.keys[scope]}, headers=OWN)


def ask(world: Any, **headers: str) -> Any:
    return world.reader.post("/v1/search", json={"q": "gateway"}, headers=headers)


def test_the_page_is_a_document_without_a_key(world: Any) -> None:
    answer = world.reader.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert world.writer.get("/").content == answer.content


def test_a_key_becomes_a_cookie_that_searches(world: Any) -> None:
    assert world.reader.get("/session").json() == {"tenant": None, "reason": None}
    answer = sign_in(world)
    assert answer.json() == {"tenant": "acme", "reason": None}
    assert answer.headers["cache-control"] == "no-store"
    (cookie,) = world.reader.cookies.jar
    assert world.keys["search"] not in (cookie.value or "")
    assert ask(world, **OWN).status_code == 200
    assert world.reader.get("/session", headers=OWN).json()["tenant"] == "acme"
    assert world.reader.get("/v1/index", headers=OWN).json()["tenant"] == "acme"


def test_any_node_with_the_secret_reads_the_cookie(world: Any) -> None:
    sign_in(world)
    world.writer.cookies.set(PAGE_COOKIE, world.reader.cookies[PAGE_COOKIE])
    assert world.writer.get("/session", headers=OWN).json()["tenant"] == "acme"


def test_the_cookie_counts_only_for_the_page_itself(world: Any) -> None:
    sign_in(world)
    assert ask(world).status_code == 401
    assert ask(world, **OWN | {"sec-fetch-site": "cross-site"}).status_code == 401
    assert world.reader.get("/v1/search?q=gateway").status_code == 401


def test_the_cookie_never_writes_or_administers_whatever_the_key_may(world: Any) -> None:
    key = world.key("acme", ["search", "sync", "admin"])
    world.writer.post("/session", json={"key": key}, headers=OWN).raise_for_status()
    line = b'{"kind": "note", "ref": "x"}'
    answer = world.writer.post("/v1/documents:batch", content=line, headers=OWN)
    assert answer.status_code == 403
    assert world.writer.post("/v1/admin/keys", json={}, headers=OWN).status_code == 403
    assert world.writer.get("/v1/export", headers=OWN).status_code == 403
    assert world.writer.get("/v1/index", headers=OWN).status_code == 200


def test_a_key_in_the_header_goes_before_the_cookie(world: Any) -> None:
    sign_in(world)
    answer = ask(world, **OWN, authorization="Bearer ml_search_wrong")
    assert answer.status_code == 401


def test_a_revoked_key_ends_its_session(world: Any) -> None:
    made = world.registry.create_key("acme", ["search"])
    key = {"key": made.key.text}
    world.reader.post("/session", json=key, headers=OWN).raise_for_status()
    assert ask(world, **OWN).status_code == 200
    world.registry.revoke_key(made.record.id)
    assert ask(world, **OWN).status_code == 401
    told = world.reader.get("/session", headers=OWN).json()
    assert told == {"tenant": None, "reason": "this key does not exist or was revoked"}


def test_a_suspended_tenant_is_told_so(world: Any) -> None:
    sign_in(world)
    world.registry.set_state("acme", TenantState.SUSPENDED)
    assert ask(world, **OWN).json()["detail"] == "tenant acme is suspended"
    assert "suspended" in world.reader.get("/session", headers=OWN).json()["reason"]
    assert sign_in(world).status_code == 403


def test_an_expired_cookie_and_one_for_something_else_open_nothing(world: Any) -> None:
    secret, digest = world.view.derived("page"), world.view.digest(world.keys["search"]).hex()
    now_s = int(time.time())
    for value in (
        cookies.issue(secret, digest, PAGE_SCOPE, now_s - 100, 99),
        cookies.issue(secret, digest, "something else", now_s, 60),
        cookies.issue(b"x" * 32, digest, PAGE_SCOPE, now_s, 60),
        "v1.nonsense",
    ):
        world.reader.cookies.set(PAGE_COOKIE, value)
        assert ask(world, **OWN).json()["detail"] == "this session has ended"
        assert world.reader.get("/session", headers=OWN).json()["tenant"] is None
    world.reader.cookies.set(PAGE_COOKIE, cookies.issue(secret, digest, PAGE_SCOPE, now_s, 60))
    assert ask(world, **OWN).status_code == 200


def test_signing_out_takes_the_cookie_back(world: Any) -> None:
    sign_in(world)
    assert world.reader.delete("/session").status_code == 403
    assert world.reader.delete("/session", headers=OWN).status_code == 204
    assert len(world.reader.cookies) == 0
    assert ask(world, **OWN).status_code == 401


@pytest.mark.parametrize(
    ("key", "status"),
    [("nonsense", 401), ("", 401), ("ml_search_" + "0" * 33, 401), ("x" * 10_000, 413)],
)
def test_a_bad_key_gets_no_cookie(world: Any, key: str, status: int) -> None:
    answer = world.reader.post("/session", json={"key": key}, headers=OWN)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert "set-cookie" not in answer.headers


def test_a_key_that_may_not_search_gets_no_cookie(world: Any) -> None:
    for key in (world.key("acme", ["sync"]), world.key(None, ["operator"])):
        answer = world.reader.post("/session", json={"key": key}, headers=OWN)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_another_site_cannot_sign_anyone_in(world: Any) -> None:
    for headers in ({}, OWN | {"sec-fetch-site": "cross-site"}, {"sec-fetch-site": "same-origin"}):
        answer = world.reader.post("/session", json={"key": world.keys["search"]}, headers=headers)
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


def test_pages_are_no_part_of_the_interface(world: Any) -> None:
    paths = world.reader.get("/v1/openapi.json").json()["paths"]
    assert not any(path == "/" or path.startswith(("/web", "/session")) for path in paths)
