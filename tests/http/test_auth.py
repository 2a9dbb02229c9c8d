from typing import Any

import pytest

from service.tenancy.keys import mint
from service.tenancy.records import TenantState

SEARCH = {"q": "gateway"}


def ask(world: Any, *headers: tuple[str, str | bytes]) -> Any:
    return world.reader.post("/v1/search", json=SEARCH, headers=list(headers))


@pytest.mark.parametrize(
    "value",
    [
        "",
        "Bearer",
        "Bearer ",
        "Basic dXNlcjpwYXNz",
        "Bearer ml_search_short",
        "Bearer " + "x" * 5_000,
        "Bearer \xff\xfe".encode("latin-1"),
    ],
)
def test_without_a_well_formed_key_nothing_is_answered(world: Any, value: str | bytes) -> None:
    answer = ask(world, ("authorization", value))
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == 'Bearer realm="memlane"'
    assert answer.json()["type"] == "/v1/problems/unauthorized"


def test_no_header_two_headers_and_an_unknown_key_are_refused(world: Any) -> None:
    good = ("authorization", f"Bearer {world.keys['search']}")
    assert ask(world).status_code == 401
    assert ask(world, good, good).status_code == 401
    assert ask(world, ("authorization", f"Bearer {mint(['search']).text}")).status_code == 401
    assert ask(world, ("authorization", f"bEARER   {world.keys['search']}")).status_code == 200


def test_a_key_reaches_its_own_tenants_file_and_no_other(world: Any) -> None:
    other = world.files.create_tenant("other")
    key = world.key("other", ["search"])
    assert ask(world, ("authorization", f"Bearer {key}")).json()["hits"] == []
    assert other.file != world.tenant.file
    assert len(world.ask(**SEARCH).json()["hits"]) == 2


@pytest.mark.parametrize(
    ("scope", "method", "path"),
    [
        ("admin", "POST", "/v1/search"),
        ("admin", "GET", "/v1/index"),
        ("admin", "POST", "/v1/analyze"),
        ("admin", "POST", "/v1/documents:get"),
        ("operator", "GET", "/v1/index"),
        ("search", "POST", "/v1/documents:batch"),
        ("sync", "POST", "/v1/admin/keys"),
        ("admin", "GET", "/v1/admin/tenants"),
        ("admin", "POST", "/v1/admin/tenants"),
    ],
)
def test_a_key_without_the_right_is_told_which_right(
    world: Any, scope: str, method: str, path: str
) -> None:
    body = {} if method == "GET" else {"json": {"scopes": ["search"]}}
    answer = world.writer.request(method, path, headers=world.headers(scope), **body)
    assert answer.status_code == 403
    assert "scope" in answer.json()["detail"]


def test_a_tenant_suspended_or_deleted_is_shut_out_at_once(world: Any) -> None:
    world.registry.set_state("acme", TenantState.SUSPENDED)
    assert world.ask(**SEARCH).status_code == 403
    world.registry.set_state("acme", TenantState.DELETED)
    assert world.ask(**SEARCH).status_code == 401


def test_an_operator_makes_a_tenant_and_its_first_key_which_then_works(world: Any) -> None:
    made = world.writer.post(
        "/v1/admin/tenants", json={"name": "fresh"}, headers=world.headers("operator")
    )
    assert made.status_code == 201
    assert made.json()["state"] == "active"
    assert "file" not in made.json()
    key = world.writer.post(
        "/v1/admin/keys",
        json={"tenant": "fresh", "scopes": ["sync", "search"], "label": "laptop"},
        headers=world.headers("operator"),
    )
    assert key.status_code == 201
    assert key.json()["scopes"] == ["search", "sync"]
    answer = world.writer.post(
        "/v1/documents:batch",
        content=b'{"kind": "note", "ref": "1"}',
        headers={"authorization": f"Bearer {key.json()['key']}"},
    )
    assert answer.json()["version"] == 1
    listed = world.writer.get("/v1/admin/tenants", headers=world.headers("operator")).json()
    assert [tenant["name"] for tenant in listed["tenants"]] == ["acme", "fresh"]
    again = world.writer.post(
        "/v1/admin/tenants", json={"name": "fresh"}, headers=world.headers("operator")
    )
    assert again.status_code == 409


def test_a_tenants_admin_makes_keys_for_its_own_tenant_and_never_wider_ones(world: Any) -> None:
    def make(**body: Any) -> Any:
        return world.writer.post("/v1/admin/keys", json=body, headers=world.headers("admin"))

    world.files.create_tenant("other")
    assert make(scopes=["search"]).json()["tenant"] == "acme"
    assert make(tenant="acme", scopes=["admin"]).status_code == 201
    assert make(tenant="other", scopes=["search"]).status_code == 403
    assert make(scopes=["operator"]).status_code == 400
    assert make(scopes=[]).status_code == 400
    assert make(scopes=["search"], expires_at=1).status_code == 400


def test_a_reader_does_not_administer(world: Any) -> None:
    for path, body in (("tenants", {"name": "x"}), ("keys", {"scopes": ["operator"]})):
        answer = world.reader.post(
            f"/v1/admin/{path}", json=body, headers=world.headers("operator")
        )
        assert answer.status_code == 421
