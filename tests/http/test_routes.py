import json
import logging
from typing import Any

import pytest

from service.errors import MemlaneError, TooLarge
from service.http import problems
from service.http.openapi import openapi
from service.http.routes import ROUTES


def test_every_route_is_in_the_openapi_document_and_nothing_else(world: Any) -> None:
    routed = {
        (route.path, method)
        for route in ROUTES
        for method in route.methods or ()
        if method != "HEAD"
    }
    served = world.reader.get("/v1/openapi.json").json()
    documented = {
        (path, method.upper()) for path, calls in served["paths"].items() for method in calls
    }
    assert documented == routed


def test_every_reference_in_the_openapi_document_leads_somewhere() -> None:
    document = openapi()
    text = json.dumps(document)
    used = {part.split('"')[0] for part in text.split('"$ref": "#/')[1:]}
    for reference in used:
        found: Any = document
        for step in reference.split("/"):
            found = found[step]
    named = {f"components/schemas/{name}" for name in document["components"]["schemas"]}
    assert named <= used


def test_answers_have_the_fields_that_the_document_promises(world: Any) -> None:
    schemas = openapi()["components"]["schemas"]
    search = world.ask(q="gateway", explain=True).json()
    assert set(search) == set(schemas["SearchResult"]["properties"])
    hit = schemas["SearchResult"]["properties"]["hits"]["items"]
    assert set(search["hits"][0]) == set(hit["properties"])
    got = world.reader.post(
        "/v1/documents:get",
        json={"refs": [{"kind": "note", "ref": "n1"}]},
        headers=world.headers("search"),
    ).json()
    assert set(got) == set(schemas["Documents"]["properties"])
    one = schemas["Documents"]["properties"]["documents"]["items"]
    assert set(got["documents"][0]) == set(one["required"])
    assert set(world.batch(b"").json()) == set(schemas["BatchResult"]["required"])
    key = world.writer.post(
        "/v1/admin/keys", json={"scopes": ["search"]}, headers=world.headers("admin")
    ).json()
    assert set(key) == set(schemas["KeyResult"]["properties"])


def test_an_unknown_address_and_a_wrong_method_are_problems(world: Any) -> None:
    for path in ("/v1", "/v1/search/", "/v1/Search", "/v1/%2e%2e/healthz", "/nothing"):
        answer = world.reader.get(path)
        assert answer.status_code == 404
        assert answer.headers["content-type"] == "application/problem+json"
    answer = world.reader.delete("/v1/search")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "GET, HEAD, POST"
    assert answer.json()["hint"] == "Use GET or HEAD or POST."


def test_health_is_open_and_readiness_gives_reasons(world: Any) -> None:
    assert world.reader.get("/healthz").json() == {"status": "ok", "role": "reader"}
    ready = world.writer.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "ready": True,
        "reasons": [],
        "role": "writer",
        "registry_version": world.registry.version,
        "spans": {},
        "semantic": {},
    }
    world.files.ready = False
    unready = world.reader.get("/readyz")
    assert unready.status_code == 503
    assert unready.json()["reasons"] == ["no store"]


def test_a_node_without_a_registry_is_not_ready(world: Any) -> None:
    world.registry.path = world.folder / "gone.sqlite"
    ready = world.reader.get("/readyz")
    assert ready.status_code == 503
    assert ready.json()["registry_version"] is None
    assert ready.json()["reasons"] == ["this node has no registry at hand"]
    assert world.ask(q="x").status_code == 503


def test_the_index_is_described(world: Any) -> None:
    body = world.reader.get("/v1/index", headers=world.headers("search")).json()
    assert body["tenant"] == "acme"
    assert body["documents"] == 2
    assert body["index"]["age_ms"] == 250


def test_a_text_is_analyzed_as_document_and_as_query(world: Any) -> None:
    def analyze(text: str) -> Any:
        return world.reader.post(
            "/v1/analyze", json={"text": text}, headers=world.headers("search")
        ).json()

    body = analyze("AcmeEventOperator")
    assert body["streams"]["orig"] == ["acmeeventoperator"]
    assert body["query"]["text"] == "AcmeEventOperator"
    assert analyze("x" * 5_000)["query"] is None


def subclasses(cls: type[MemlaneError]) -> set[type[MemlaneError]]:
    return {cls}.union(*(subclasses(sub) for sub in cls.__subclasses__()))


def test_every_error_has_a_row_of_its_own_or_its_parents_and_slugs_are_unique() -> None:
    slugs = [row.slug for row in problems.PROBLEMS.values()]
    assert len(slugs) == len(set(slugs))
    for cls in subclasses(MemlaneError):
        assert problems.problem_of(cls).slug in slugs
    assert set(problems.PROBLEMS) <= subclasses(MemlaneError)


def test_a_problems_type_can_be_looked_up(world: Any) -> None:
    for row in problems.PROBLEMS.values():
        told = world.reader.get(problems.TYPE_PREFIX + row.slug).json()
        assert told["status"] == row.status
        assert told["meaning"].endswith(".")
    assert world.reader.get("/v1/problems/none").status_code == 404
    assert problems.table().count("\n") == len(problems.PROBLEMS) + 2


def test_a_problem_carries_what_its_error_knows() -> None:
    answer = problems.problem_response(TooLarge("too long", limit="query_chars"), "id-1")
    assert json.loads(bytes(answer.body)) == {
        "type": "/v1/problems/too-large",
        "title": "Something is over a limit",
        "status": 413,
        "detail": "too long",
        "hint": "",
        "request_id": "id-1",
        "limit": "query_chars",
    }


@pytest.mark.parametrize(
    ("sent", "kept"),
    [("abc-1.Z_9", True), ("", False), ("a b", False), ("x" * 65, False), ("a\x7f", False)],
)
def test_a_callers_request_id_is_kept_when_it_is_harmless(
    world: Any, sent: str, kept: bool
) -> None:
    answer = world.reader.get("/healthz", headers={"x-request-id": sent})
    assert (answer.headers["x-request-id"] == sent) is kept


def test_the_access_log_has_one_line_of_json_a_request_and_no_query(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="memlane.access"):
        world.reader.get("/v1/search?q=topsecret", headers=world.headers("search"))
        world.reader.get("/nowhere-topsecret")
    lines = [json.loads(r.getMessage()) for r in caplog.records if r.name == "memlane.access"]
    assert [(line["route"], line["status"]) for line in lines] == [
        ("/v1/search", 200),
        (None, 404),
    ]
    assert "topsecret" not in " ".join(map(json.dumps, lines))
    assert all(line["took_ms"] > 0 and line["bytes"] > 0 for line in lines)
