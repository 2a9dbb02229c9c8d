"""A prefetch answers in its time with what there is, and says what there was no time for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from service.http.openapi import openapi
from service.search import engine
from service.semantic.client import EmbedClient
from service.semantic.lane import Lane
from service.settings import Settings
from tests.http.real import RealWorld, Stall, notes, real_world
from tests.semantic.one_file import OneFile
from tests.semantic.sidecar import FakeSidecar, serve

DEADLINE_S = 20.0
PREFETCH = "/v1/prefetch"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[RealWorld]:
    with real_world(tmp_path) as world:
        yield world


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_text_finds_what_it_is_about(world: RealWorld) -> None:
    key = world.tenant("acme", [*notes(8), *notes(3, kind="task")])
    told = world.post(
        key, PREFETCH, text='Why does "the gateway" retry? -note kind:x', budget_ms=2_000
    ).json()
    assert set(told) == set(openapi()["components"]["schemas"]["Prefetched"]["properties"])
    assert len(told["hits"]) == 5
    assert told["query"] == "Why does the gateway retry? note kind x"
    assert (told["skipped"], told["budget_ms"]) == ([], 2_000)
    assert told["index"] == {"version": 1, "age_ms": 250}
    assert told["tokens"]["saved_percent"] > 50
    tasks = world.post(key, PREFETCH, text="gateway", kinds=["task"], limit=10).json()
    assert [row[0] for row in tasks["hits"]] == ["task"] * 3


def test_a_search_that_takes_too_long_is_cut_short_and_said_to_be(world: RealWorld) -> None:
    key = world.tenant("acme", notes(3))
    world.search = stall = Stall()
    answer = world.post(key, PREFETCH, text="gateway", budget_ms=100)
    told = answer.json()
    assert told["hits"] == []
    assert told["skipped"] == ["search", "semantic"]
    assert stall.began.is_set()
    wait_for(stall.ended.is_set)
    world.search = engine.search
    assert world.post(key, PREFETCH, text="gateway", budget_ms=2_000).json()["hits"]


def test_those_who_wait_for_a_place_answer_in_their_time_too(tmp_path: Path) -> None:
    with real_world(tmp_path, prefetch_threads=1, prefetch_queue=2) as world:
        key = world.tenant("acme", notes(3))
        hold, began = threading.Event(), threading.Event()

        def held(*asked: Any) -> Any:
            began.set()
            hold.wait(DEADLINE_S)
            return engine.search(*asked)

        world.search = held
        threads = [
            threading.Thread(
                target=lambda: told.append(
                    world.post(key, PREFETCH, text="gateway", budget_ms=100).json()
                )
            )
            for _ in range(5)
        ]
        told: list[Any] = []
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
        hold.set()
        assert [each["skipped"] for each in told] == [["search", "semantic"]] * 5
        assert began.is_set()


def test_a_tenant_that_is_away_is_asked_for_and_answered_empty(world: RealWorld) -> None:
    key = world.tenant("acme", notes(3))
    world.files.cold = True
    answer = world.post(key, PREFETCH, text="gateway")
    told = answer.json()
    assert answer.status_code == 200
    assert told["skipped"] == ["replica", "semantic"]
    assert (told["hits"], told["index"]) == ([], None)
    assert len(world.files.asked_for) == 1
    assert "Not done within 300 ms: replica, semantic." in (
        world.post(key, PREFETCH, text="gateway", accept="text/markdown").text
    )


def test_a_sidecar_that_hangs_costs_its_part_of_the_budget_only(tmp_path: Path) -> None:
    sidecar = FakeSidecar()
    server, port = serve(sidecar)
    lane = Lane(EmbedClient(f"127.0.0.1:{port}", Settings()), deadline_ms=150)
    try:
        with real_world(tmp_path, lane=lane) as world:
            key = world.tenant("acme", notes(3))
            told = world.post(key, PREFETCH, text="gateway retry", budget_ms=2_000).json()
            assert told["semantic"] == {"state": "cold", "reason": "backfill_pending"}
            assert told["skipped"] == [], "not for want of time"
            one = OneFile(world.folder / world.registry.tenant("acme").file, sidecar, port)
            one.fill()
            one.client.close()
            told = world.post(key, PREFETCH, text="gateway retry policy", budget_ms=2_000).json()
            assert told["semantic"] == {"state": "ok", "reason": None}
            sidecar.delay_s = 5.0
            told = world.post(key, PREFETCH, text="gateway policy", budget_ms=400).json()
            assert told["semantic"] == {"state": "timeout", "reason": "deadline"}
            assert told["skipped"] == ["semantic"]
            assert len(told["hits"]) == 3
            world.files.cold = True
            told = world.post(key, PREFETCH, text="gateway policy").json()
            assert told["semantic"] == {"state": "skipped", "reason": "no_candidates"}
    finally:
        server.stop(0)


def test_every_prefetch_is_counted_once_whatever_came_of_it(world: RealWorld) -> None:
    key = world.tenant("acme", notes(3))
    world.post(key, PREFETCH, text="gateway")
    world.files.cold = True
    world.post(key, PREFETCH, text="gateway")
    world.files.cold, world.search = False, Stall()
    world.post(key, PREFETCH, text="gateway", budget_ms=60)
    assert world.counted() == {("reader", "disabled", "no_sidecar"): 3}


def test_refusals(world: RealWorld) -> None:
    key = world.tenant("acme", [])
    for wrong in (
        {},
        {"text": 7},
        {"text": "a", "budget_ms": 49},
        {"text": "a", "budget_ms": 2_001},
        {"text": "a", "kinds": "note"},
        {"text": "a", "q": "a"},
    ):
        assert world.post(key, PREFETCH, **wrong).status_code == 400
    assert world.post("ml_nonsense", PREFETCH, text="a").status_code == 401


def test_a_long_text_is_taken_whole(world: RealWorld) -> None:
    key = world.tenant("acme", notes(3))
    text = "the gateway, " + "which waits and waits " * 2_500 + "has a retry policy"
    told = world.post(key, PREFETCH, text=text, budget_ms=2_000).json()
    assert told["hits"]
    assert len(told["query"].split()) <= 24
