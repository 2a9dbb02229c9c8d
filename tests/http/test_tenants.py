"""What an operator does with tenants, over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from service.http.openapi import openapi


def admin(world: Any, method: str, path: str, scope: str = "operator", **more: Any) -> Any:
    return world.writer.request(
        method, f"/v1/admin/tenants{path}", headers=world.headers(scope), **more
    )


def test_a_suspended_tenant_is_refused_everywhere_and_resumes_as_it_was(world: Any) -> None:
    shown = admin(world, "POST", "/acme:suspend")
    assert shown.status_code == 200
    assert shown.json()["state"] == "suspended"
    for answer in (world.ask(q="gateway"), world.batch(b'{"kind":"a","ref":"b","title":"c"}\n')):
        assert answer.status_code == 403
        assert answer.json()["type"] == "/v1/problems/tenant-suspended"
        assert answer.json()["hint"] == "Ask the operator to resume the tenant."
    assert admin(world, "POST", "/acme:resume").json()["state"] == "active"
    assert len(world.ask(q="gateway").json()["hits"]) == 2


def test_a_deletion_answers_with_its_receipt_and_again_with_the_same(world: Any) -> None:
    first = admin(world, "DELETE", "/acme")
    assert first.status_code == 200
    assert first.json()["state"] == "deleted"
    assert first.json()["deletion"]["receipt"] == {"tenant": "acme", "objects_remaining": 0}
    assert admin(world, "DELETE", "/acme").json() == first.json()
    assert admin(world, "GET", "/acme").json() == first.json()
    assert world.ask(q="gateway").status_code == 401
    again = admin(world, "POST", "", json={"name": "acme"})
    assert again.status_code == 409


def test_a_deletion_that_is_not_done_says_so_and_why(world: Any) -> None:
    world.lifecycle.store_down = True
    told = admin(world, "DELETE", "/acme")
    assert told.status_code == 202
    assert told.json()["state"] == "deleting"
    assert told.json()["deletion"]["receipt"] is None
    assert told.json()["deletion"]["trouble"] == "the store is down"
    assert world.ask(q="gateway").status_code == 401


@pytest.mark.parametrize(
    ("at", "ms"),
    [(1_790_000_000_123, 1_790_000_000_123), ("2026-09-21T14:13:20.123Z", 1_790_000_000_123)],
)
def test_a_moment_is_given_in_ms_or_as_iso_8601(world: Any, at: Any, ms: int) -> None:
    told = admin(world, "POST", "/acme:restore", json={"at": at, "dry_run": True})
    assert told.status_code == 200
    assert world.lifecycle.restored == [("acme", ms, True)]
    assert set(told.json()) == set(
        openapi()["components"]["schemas"]["RestoreResult"]["properties"]
    )


@pytest.mark.parametrize("body", [{}, {"at": "yesterday"}, {"at": 1, "to": 2}, {"at": -1}])
def test_a_restore_without_a_moment_is_refused(world: Any, body: Any) -> None:
    assert admin(world, "POST", "/acme:restore", json=body).status_code == 400
    assert world.lifecycle.restored == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/acme"),
        ("DELETE", "/acme"),
        ("POST", "/acme:suspend"),
        ("POST", "/acme:resume"),
        ("POST", "/acme:restore"),
        ("POST", "/acme:move"),
    ],
)
def test_only_an_operator_administers_and_only_on_a_writer(
    world: Any, method: str, path: str
) -> None:
    body = {"to": "east"} if path.endswith(":move") else {"at": 1}
    assert admin(world, method, path, scope="admin", json=body).status_code == 403
    elsewhere = world.reader.request(
        method, f"/v1/admin/tenants{path}", headers=world.headers("operator")
    )
    assert elsewhere.json()["type"] == "/v1/problems/not-the-writer"
    missing = path.replace("acme", "nobody")
    assert admin(world, method, missing, json=body).status_code == 404


def test_tenants_are_shown_with_the_fields_that_are_promised(world: Any) -> None:
    made = admin(world, "POST", "", json={"name": "new"})
    assert made.status_code == 201
    promised = set(openapi()["components"]["schemas"]["Tenant"]["properties"])
    assert set(made.json()) == promised
    assert all(set(each) == promised for each in admin(world, "GET", "").json()["tenants"])


def test_a_tenant_is_made_on_a_shard_and_moved(world: Any) -> None:
    made = admin(world, "POST", "", json={"name": "terns", "shard": "east"})
    assert made.status_code == 201
    assert (made.json()["shard"], made.json()["moving_to"]) == ("east", None)
    assert admin(world, "GET", "/acme").json()["shard"] == "main"
    moved = admin(world, "POST", "/acme:move", json={"to": "east"})
    assert moved.status_code == 200
    assert (moved.json()["shard"], moved.json()["moving_to"]) == ("east", None)
    world.lifecycle.store_down = True
    begun = admin(world, "POST", "/acme:move", json={"to": "main"})
    assert begun.status_code == 202
    assert (begun.json()["shard"], begun.json()["moving_to"]) == ("east", "main")
