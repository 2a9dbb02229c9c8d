"""The operator's reports and pages: who gets in, and what they see."""

from __future__ import annotations

import re
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from service.http import cookies
from service.http.auth import OPERATOR_COOKIE, PAGE_SCOPE
from service.index.document import Document
from tests.http.conftest import World

PATHS = ("/v1/operator/overview", "/v1/operator/tenants/acme", "/v1/operator/queries/known")
PAGES = ("/operator", "/operator/tenants/acme", "/operator/queries/known")


def asked(world: Any, count: int = 3) -> None:
    """Searches whose figures are written."""
    world.put(Document(kind="note", ref="n1", title="topsecret kettle", updated_at=1))
    for number in range(count):
        headers = world.headers("search", **{"x-request-id": f"known{number or ''}"})
        answer = world.reader.post("/v1/search", json={"q": "topsecret"}, headers=headers)
        assert answer.status_code == 200
    deadline = time.monotonic() + 20
    while report(world)["total"]["searches"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def report(world: Any, path: str = PATHS[0], **parameters: Any) -> Any:
    answer = world.reader.get(path, params=parameters, headers=world.headers("operator"))
    assert answer.status_code == 200, answer.text
    return answer.json()


def signed_in(world: Any) -> TestClient:
    browser: TestClient = world.reader
    form = {"key": world.keys["operator"]}
    answer = browser.post("/operator/session", data=form, follow_redirects=False)
    assert answer.status_code == 303
    assert answer.headers["location"] == "/operator"
    return browser


def test_the_overview_counts_what_was_asked_and_says_how_it_went(world: Any) -> None:
    asked(world)
    told = report(world)
    assert told["total"]["states"] == {"disabled/no_sidecar": 3}
    assert told["total"]["latency_ms"]["total"]["n"] == 3
    assert told["total"]["temperatures"] == {"hot": 3, "warm": 0, "cold": 0}
    assert told["total"]["age_ms"]["most"] == 250
    assert sum(bucket["latency_ms"]["n"] for bucket in told["series"]) == 3
    [row] = told["tenants"]["rows"]
    assert row["documents"] == len(world.found())
    assert (row["tenant"], row["searches"]) == ("acme", 3)
    assert told["node"]["role"] == "reader"
    assert told["health"]["ready"] is True
    assert report(world, PATHS[1])["total"]["searches"] == 3
    story = report(world, PATHS[2])
    assert story["tenant"] == "acme"
    assert story["facts"]["temperature"] == "hot"


def test_a_prefetch_counts_too(world: Any) -> None:
    asked(world, 1)
    answer = world.reader.post(
        "/v1/prefetch", json={"text": "topsecret kettle"}, headers=world.headers("search")
    )
    assert answer.status_code == 200
    deadline = time.monotonic() + 20
    while report(world)["total"]["searches"] < 2:
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.parametrize("path", PATHS)
def test_only_an_operators_key_reads_reports(world: Any, path: str) -> None:
    assert world.reader.get(path).status_code == 401
    for scope in ("search", "sync", "admin"):
        answer = world.reader.get(path, headers=world.headers(scope))
        assert answer.status_code == 403, scope
    assert world.reader.get(path, headers={"authorization": "Bearer x"}).status_code == 401


@pytest.mark.parametrize("path", PAGES)
def test_who_has_not_signed_in_sees_the_form_and_no_figures(world: Any, path: str) -> None:
    asked(world)
    nobody: dict[str, str] = {}
    for headers in (nobody, world.headers("admin")):
        page = world.reader.get(path, headers=headers)
        assert 'action="/operator/session"' in page.text
        assert "acme" not in page.text
        assert page.headers["cache-control"] == "no-store"


def test_a_session_opens_all_pages_until_it_is_left(world: Any) -> None:
    asked(world)
    browser = signed_in(world)
    for path in PAGES:
        page = browser.get(path)
        assert page.status_code == 200
        assert "acme" in page.text
        assert 'action="/operator/session"' not in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert " style=" not in page.text
    for path in PATHS:
        assert browser.get(path).status_code == 200
    browser.post("/operator/leave")
    assert 'action="/operator/session"' in browser.get("/operator").text


def test_a_cookie_of_the_search_page_is_nothing_here(world: Any) -> None:
    node_secret = world.view.derived("page")
    digest = world.view.digest(world.keys["operator"]).hex()
    value = cookies.issue(node_secret, digest, PAGE_SCOPE, int(time.time()), 60)
    world.reader.cookies.set(OPERATOR_COOKIE, value)
    assert 'action="/operator/session"' in world.reader.get("/operator").text
    assert world.reader.get(PATHS[0]).status_code == 401


def test_a_tenants_key_and_another_sites_form_do_not_sign_in(world: Any) -> None:
    page = world.reader.post("/operator/session", data={"key": world.keys["admin"]})
    assert 'role="alert"' in page.text
    assert OPERATOR_COOKIE not in world.reader.cookies
    answer = world.reader.post(
        "/operator/session",
        data={"key": world.keys["operator"]},
        headers={"sec-fetch-site": "cross-site"},
        follow_redirects=False,
    )
    assert answer.status_code == 403


def test_a_revoked_operator_is_out_at_once(world: Any) -> None:
    key = world.registry.create_key(None, ["operator"])
    world.reader.post("/operator/session", data={"key": key.key.text})
    assert 'action="/operator/session"' not in world.reader.get("/operator").text
    world.registry.revoke_key(key.record.id)
    assert 'action="/operator/session"' in world.reader.get("/operator").text


def test_nothing_of_what_was_asked_or_found_is_shown(world: Any) -> None:
    asked(world)
    browser = signed_in(world)
    told = [browser.get(path).text for path in (*PAGES, *PATHS)]
    assert all("topsecret" not in text and "kettle" not in text for text in told)


def test_names_are_shown_as_text(world: Any) -> None:
    browser = signed_in(world)
    for hostile in ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>'):
        for path in ("/operator/tenants/", "/operator/queries/"):
            page = browser.get(path + hostile.replace("/", "%2F"))
            assert "<script>alert" not in page.text
            assert "<img src=x" not in page.text
        page = browser.get("/operator", params={"text": hostile})
        assert "<script>alert" not in page.text
        assert "<img src=x" not in page.text


@pytest.mark.parametrize(
    "parameters",
    [{"minutes": 0}, {"minutes": "x"}, {"minutes": 10**9}, {"order": "x"}, {"page": 0}, {"a": 1}],
)
def test_parameters_that_cannot_be_read_are_refused(world: Any, parameters: Any) -> None:
    for path in (PATHS[0], PAGES[0]):
        answer = world.reader.get(path, params=parameters, headers=world.headers("operator"))
        assert answer.status_code == 400, answer.text


def test_what_is_not_kept_is_said(world: Any) -> None:
    browser = signed_in(world)
    for path in ("/v1/operator/tenants/nobody", "/v1/operator/queries/none"):
        assert browser.get(path).status_code == 404
    assert "keeps no figures" in browser.get("/operator/tenants/nobody").text
    assert "keeps no story" in browser.get("/operator/queries/none").text


def test_many_tenants_are_listed_in_pages_by_cost_and_found_by_name(tmp_path: Path) -> None:
    with ExitStack() as stack:
        world = World(tmp_path, stack)
        for number in range(120):
            world.files.create_tenant(f"team-{number:03}")
            key = world.key(f"team-{number:03}", ["search"])
            headers = {"authorization": f"Bearer {key}"}
            assert world.reader.get("/v1/search?q=x", headers=headers).status_code == 200
        deadline = time.monotonic() + 20
        while report(world)["total"]["searches"] < 120:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        first, last = report(world), report(world, page=3)
        assert (first["tenants"]["count"], first["tenants"]["pages"]) == (120, 3)
        assert (len(first["tenants"]["rows"]), len(last["tenants"]["rows"])) == (50, 20)
        costs = [row["cpu_s"] for row in first["tenants"]["rows"]]
        assert costs == sorted(costs, reverse=True)
        assert report(world, text="team-07")["tenants"]["matching"] == 10
        named = [row["tenant"] for row in report(world, order="name")["tenants"]["rows"]]
        assert named[:2] == ["team-000", "team-001"]
        page = signed_in(world).get("/operator?page=2")
        assert len(re.findall(r'<th scope="row"><a href="/operator/tenants/', page.text)) == 50
