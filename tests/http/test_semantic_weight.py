"""`/v1/index:semantic`: what vectors weigh for a tenant."""

from __future__ import annotations

from typing import Any

import pytest


def weigh(world: Any, body: dict[str, Any], *scopes: str) -> Any:
    return world.writer.post("/v1/index:semantic", json=body, headers=world.headers(*scopes))


def test_an_admin_key_sets_it_for_its_own_tenant(world: Any) -> None:
    answer = weigh(world, {"percent": 40}, "admin")
    assert answer.status_code == 200
    assert answer.json()["percent"] == 40
    assert [each.percent for each in world.files.weights.values()] == [40]


@pytest.mark.parametrize("body", [{}, {"percent": 101}, {"percent": -1}, {"percent": "40"}])
def test_what_is_no_percentage_is_refused(world: Any, body: dict[str, Any]) -> None:
    answer = weigh(world, body, "admin")
    assert answer.status_code == 400
    assert "percent" in answer.json()["detail"]
    assert not world.files.weights


def test_a_key_that_may_only_search_may_not(world: Any) -> None:
    assert weigh(world, {"percent": 40}, "search").status_code == 403


def test_a_reader_says_where_the_writer_is(world: Any) -> None:
    answer = world.reader.post(
        "/v1/index:semantic", json={"percent": 40}, headers=world.headers("admin")
    )
    assert answer.json()["type"].endswith("not-the-writer")
