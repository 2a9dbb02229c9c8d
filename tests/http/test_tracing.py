"""Requests as their spans and their log lines tell them, received over OTLP."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from golden.fleet.collector import Collector
from service.index.document import Document
from tests.http.conftest import World

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01", "baggage": "secret=baggage"}


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with Collector() as running:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", running.url)
        yield running


def crash(reader: Any, request: Any) -> Any:
    raise RuntimeError("topsecret")


def play(folder: Path, caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """A few requests; the lines of the access log."""
    with ExitStack() as stack, caplog.at_level(logging.INFO, logger="memlane.access"):
        world = World(folder, stack)
        world.put(Document(kind="note", ref="n1", title="topsecret kettle", updated_at=1))
        headers = world.headers("search", **PARENT)
        world.reader.get("/v1/search?q=topsecret", headers=headers)
        world.reader.get("/nowhere-topsecret", headers=PARENT)
        world.reader.get("/healthz", headers=PARENT)
        world.reader.get("/readyz", headers=PARENT)
        world.search = crash
        world.reader.get("/v1/search?q=topsecret", headers=headers)
    return [json.loads(r.getMessage()) for r in caplog.records if r.name == "memlane.access"]


def test_a_request_is_a_span_in_its_callers_trace_and_its_log_line_names_it(
    tmp_path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    lines = play(tmp_path, caplog)
    roots = [span for span in collector.spans.all() if span.parent == SPAN]
    assert [(span.name, span.attributes["http.response.status_code"]) for span in roots] == [
        ("GET /v1/search", "200"),
        ("GET", "404"),
        ("GET /v1/search", "500"),
    ]
    assert all(span.trace == TRACE for span in roots)
    first = roots[0].attributes
    assert first["http.request.method"] == "GET"
    assert first["http.route"] == "/v1/search"
    assert first["memlane.tenant"] == "acme"
    traced = [line for line in lines if "trace_id" in line]
    assert [(line["trace_id"], line["span_id"]) for line in traced] == [
        (TRACE, span.id) for span in roots
    ]
    assert [line["request_id"] for line in traced] == [
        span.attributes["memlane.request_id"] for span in roots
    ]
    assert len(lines) == 5  # probes are logged and not traced


def test_a_search_and_its_parts_are_below_its_request(
    tmp_path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    play(tmp_path, caplog)
    [search, _] = collector.spans.named("search")
    assert search.attributes["memlane.semantic.state"] == "disabled"
    assert search.attributes["memlane.semantic.reason"] == "no_sidecar"
    tree = [(depth, span.name) for depth, span in collector.spans.tree(TRACE)]
    assert tree[:3] == [(0, "GET /v1/search"), (1, "search"), (2, "replica.open")]


def test_nothing_of_what_was_asked_or_found_leaves_not_even_of_a_crash(
    tmp_path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    lines = play(tmp_path, caplog)
    assert collector.spans.texts
    told = [*collector.spans.texts, collector.text(), *map(json.dumps, lines)]
    assert all("secret" not in text for text in told)


def test_a_durations_bucket_names_a_trace_as_its_exemplar(
    tmp_path: Path, collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    play(tmp_path, caplog)
    found = [
        exemplar.trace_id.hex()
        for point in collector.points("memlane.search.duration")
        for exemplar in point.exemplars
    ]
    assert set(found) == {TRACE}


def test_of_unchosen_traces_only_the_failed_one_leaves(
    tmp_path: Path,
    collector: Collector,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(PARENT, "traceparent", f"00-{TRACE}-{SPAN}-00")
    play(tmp_path, caplog)
    roots = [span for span in collector.spans.all() if span.parent == SPAN]
    assert [span.attributes["http.response.status_code"] for span in roots] == ["500"]
