"""Every outcome of the lane in one search, with a real file and a sidecar behind real gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import grpc
import pytest

from service.index.reader import IndexReader
from service.search.engine import search
from service.search.request import SearchRequest, SearchResult
from service.semantic.client import EmbedClient
from service.semantic.lane import Lane, open_lane
from service.semantic.state import SemanticOutcome
from service.settings import Settings
from tests.e2e.service import wait_for
from tests.semantic.one_file import OneFile
from tests.semantic.sidecar import MODEL, FakeSidecar, serve

LIMITS = Settings(semantic_deadline_ms=2_000, semantic_late_ms=2_000, semantic_pause_ms=60_000)


class World:
    """Two notes that are equally good by keyword, one of them nearer to the question."""

    def __init__(self, folder: Path) -> None:
        self.sidecar = FakeSidecar()
        self.server, port = serve(self.sidecar)
        self.file = OneFile(folder / "tenant.db", self.sidecar, port)
        self.file.put("near", "green kettle boils quickly today")
        self.file.put("far", "green granite erodes slowly forever")
        self.client = EmbedClient(f"127.0.0.1:{port}", LIMITS)
        self.lane = Lane(self.client, deadline_ms=LIMITS.semantic_deadline_ms)

    def ask(
        self, q: str, *, asked_ms: int | None = None, cursor: str | None = None, limit: int = 10
    ) -> tuple[SearchResult, SemanticOutcome]:
        reader = IndexReader(self.file.path)
        request = SearchRequest(q=q, limit=limit, cursor=cursor)
        with reader.snapshot():
            attempt = self.lane.attempt(reader, request, asked_ms=asked_ms, budget_ms=10_000)
            result = search(reader, request, attempt)
        reader.close()
        return result, attempt.outcome

    def header(self, q: str, *, asked_ms: int | None = None) -> str:
        return self.ask(q, asked_ms=asked_ms)[1].header()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    made.client.close()
    made.file.client.close()
    made.server.stop(0)


def test_before_the_backfill_a_query_is_cold(world: World) -> None:
    assert world.header("green kettle") == "cold; reason=backfill_pending"
    assert world.sidecar.queries == [], "nobody is asked for what cannot be used"


def test_after_it_the_nearer_of_two_equals_comes_first(world: World) -> None:
    before = [hit.ref for hit in world.ask("green")[0].hits]
    world.file.fill()
    result, outcome = world.ask("green kettle boils")
    assert (outcome.state.value, outcome.coverage, outcome.model) == ("ok", 1.0, MODEL)
    assert [hit.ref for hit in result.hits] == ["near", "far"]
    assert sorted(before) == ["far", "near"]
    semantic = {hit.ref: hit.components["semantic"] for hit in result.hits}
    assert semantic["near"] > semantic["far"]


def test_a_document_that_came_later_lowers_the_coverage(world: World) -> None:
    world.file.fill()
    world.file.put("new", "green kettle on the shelf")
    _, outcome = world.ask("green")
    assert outcome.coverage == pytest.approx(2 / 3)


def test_another_model_in_the_sidecar_is_cold(world: World) -> None:
    world.file.fill()
    world.sidecar.model = "other@0123456789ab"
    assert world.header("green kettle") == "cold; reason=model_changed"


@pytest.mark.parametrize(
    ("status", "header"),
    [
        (grpc.StatusCode.UNAVAILABLE, "timeout; reason=sidecar_unavailable"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "timeout; reason=sidecar_overloaded"),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "timeout; reason=deadline"),
    ],
)
def test_a_sidecar_that_fails_leaves_the_keyword_order_and_then_is_left_alone(
    world: World, status: grpc.StatusCode, header: str
) -> None:
    world.file.fill()
    by_keyword = [hit.ref for hit in world.ask("green kettle", asked_ms=0)[0].hits]
    world.sidecar.fail = status
    for count in range(LIMITS.semantic_failures):
        result, outcome = world.ask(f"green kettle {count}")
        assert outcome.header() == header
        assert [hit.ref for hit in result.hits] == by_keyword
    assert world.header("green kettle again") == "skipped; reason=circuit_open"


def test_a_deadline_of_its_own_is_kept_and_the_late_answer_too(world: World) -> None:
    world.file.fill()
    world.sidecar.delay_s = 0.3
    assert world.header("green kettle", asked_ms=1) == "timeout; reason=deadline"
    wait_for(lambda: world.header("green kettle", asked_ms=1).startswith("ok"))
    assert world.sidecar.queries == ["green kettle"]


def test_what_a_vector_cannot_help_with_is_skipped(world: World) -> None:
    world.file.fill()
    assert world.header("green kettle", asked_ms=0) == "skipped; reason=requested"
    assert world.header("PROJ-1234") == "skipped; reason=identifier_query"
    assert world.header("unheardofword") == "skipped; reason=no_candidates"


def test_a_tenant_that_turned_it_off_is_disabled(world: World) -> None:
    world.file.fill()
    world.file.index.vectors.weigh(0)
    assert world.header("green kettle") == "disabled; reason=tenant_off"


def test_pages_after_one_that_was_not_rescored_are_not_either(world: World) -> None:
    world.file.fill()
    first, outcome = world.ask("green", asked_ms=0, limit=1)
    assert outcome.header() == "skipped; reason=requested"
    second, outcome = world.ask("green", cursor=first.cursor, limit=1)
    assert outcome.header() == "skipped; reason=requested"
    assert {hit.ref for hit in (*first.hits, *second.hits)} == {"near", "far"}


def test_pages_after_a_rescored_one_neither_repeat_nor_drop(world: World) -> None:
    world.file.fill()
    first, _ = world.ask("green kettle boils", limit=1)
    second, outcome = world.ask("green kettle boils", cursor=first.cursor, limit=1)
    assert outcome.state.value == "ok"
    assert [hit.ref for hit in (*first.hits, *second.hits)] == ["near", "far"]


def test_without_a_sidecar_nothing_is_asked(world: World) -> None:
    world.file.fill()
    world.lane = open_lane(None, LIMITS)
    assert world.header("green kettle") == "disabled; reason=no_sidecar"
