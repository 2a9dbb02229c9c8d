from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from service.errors import NotFound
from service.node.replicas import Warmth

HERE = Warmth(True, "cold", 3, 8_192, 41, 60_000)


@dataclasses.dataclass
class Asked:
    """What a reader's files were asked to warm."""

    calls: list[tuple[str, int, int]]

    def __call__(self, file: str, *, pin_ms: int, wait_ms: int) -> Warmth:
        self.calls.append((file, pin_ms, wait_ms))
        if file.startswith("gone"):
            raise NotFound("no such tenant")
        return HERE


@pytest.fixture
def asked(world: Any) -> Asked:
    world.files.warm = Asked([])
    return world.files.warm  # type: ignore[no-any-return]


def warm(world: Any, scope: str, **body: Any) -> Any:
    headers = world.headers(scope)
    return world.reader.post("/v1/index:warm", json=body, headers=headers)


def test_a_key_warms_its_own_tenant(world: Any, asked: Asked) -> None:
    answer = warm(world, "search", pin_ms=60_000, wait_ms=250)
    assert answer.json() == {
        "resident": True,
        "temperature": "cold",
        "version": 3,
        "bytes": 8_192,
        "activated_ms": 41,
        "pinned_ms": 60_000,
    }
    assert asked.calls == [(world.tenant.file, 60_000, 250)]


def test_a_key_warms_nobody_else(world: Any, asked: Asked) -> None:
    assert warm(world, "search", tenants=["acme"]).status_code == 403
    assert warm(world, "admin").status_code == 403
    assert asked.calls == []


def test_an_operator_warms_those_it_names_and_one_failure_spoils_nothing(
    world: Any, asked: Asked
) -> None:
    other = world.files.create_tenant("other")
    world.files.warm = asked
    answer = warm(world, "operator", tenants=["acme", "other"], pin_ms=5)
    assert [each["tenant"] for each in answer.json()["tenants"]] == ["acme", "other"]
    assert [each["resident"] for each in answer.json()["tenants"]] == [True, True]
    # First all are asked for without waiting, then each is waited for.
    files = [world.tenant.file, other.file]
    assert [call[0] for call in asked.calls] == files * 2
    assert [call[1:] for call in asked.calls[:2]] == [(0, 0)] * 2


def test_an_operator_must_name_tenants_that_exist(world: Any, asked: Asked) -> None:
    assert warm(world, "operator").status_code == 400
    assert warm(world, "operator", tenants=["nobody"]).status_code == 400
    assert asked.calls == []


@pytest.mark.parametrize("body", [{"pin_ms": -1}, {"pin_ms": 10**12}, {"wait_ms": "1"}, {"x": 1}])
def test_what_is_over_a_limit_or_unknown_is_refused(
    world: Any, asked: Asked, body: dict[str, Any]
) -> None:
    assert 400 <= warm(world, "search", **body).status_code < 500
    assert asked.calls == []


def test_a_writer_has_its_files_always(world: Any) -> None:
    answer = world.writer.post("/v1/index:warm", json={}, headers=world.headers("search"))
    assert answer.json()["resident"] is True
    assert answer.json()["version"] == 1
