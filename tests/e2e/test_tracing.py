"""From the door to the sidecar: real workers, a real sidecar, a real OTLP receiver."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from golden.fleet import states
from golden.fleet.collector import Collector
from golden.fleet.spans import Span

QUERIES = 400
STATES = {"ok", "cold", "timeout", "skipped", "disabled"}
RPC = "memlane.embed.v1.Embedder/EmbedQuery"
Told = tuple[dict[str, Any], Collector]


@pytest.fixture(scope="module")
def told() -> Iterator[Told]:
    """What came to the collector while two workers answered and their sidecar was hurt."""
    with Collector(expires_s=1e9) as collector:
        yield states.run(QUERIES, collector=collector), collector


def test_bodies_headers_spans_and_counters_tell_the_same_of_every_query(told: Told) -> None:
    report, _ = told
    assert report["equal"], report
    assert report["served"] == QUERIES
    assert sum(report["counter"].values()) == QUERIES
    assert set(report["counter"]) == STATES
    assert report["workers"] == 2
    assert report["refused"] == report["spans_lost"] == 0


def test_a_search_is_one_tree_down_to_the_sidecars_run(told: Told) -> None:
    _, collector = told
    spans = collector.spans
    [run, *_] = [span for span in spans.named("run") if _is_ok(spans, span)]
    assert run.service == "memlane-embedder"
    tree = [(depth, span.name) for depth, span in spans.tree(run.trace)]
    assert tree[0] == (0, "POST /v1/search")
    assert (1, "search") in tree
    assert (2, "replica.open") in tree
    for name in ("lanes", "score", "snippets", "semantic.embed"):
        assert (2, name) in tree
    assert (3, RPC) in tree
    assert (4, "queue") in tree
    assert (4, "run") in tree
    assert sum(depth == 0 for depth, _ in tree) == 1


def test_the_backfills_calls_are_in_its_traces(told: Told) -> None:
    _, collector = told
    trees = [
        {(depth, span.name) for depth, span in collector.spans.tree(root.trace)}
        for root in collector.spans.named("backfill")
    ]
    wanted = {(0, "backfill"), (1, "sidecar EmbedPassages")}
    assert any(wanted <= tree for tree in trees)


def test_announcements_and_the_files_they_bring_are_told(told: Told) -> None:
    _, collector = told
    assert {span.service for span in collector.spans.named("publish")} == {"memlane-writer"}
    followed = collector.spans.named("follow")
    assert {span.service for span in followed} == {"memlane-follower"}
    assert all(span.attributes["memlane.file"] for span in followed)


def test_writes_tell_what_became_of_their_documents(told: Told) -> None:
    _, collector = told
    counted = [
        int(span.attributes["memlane.sync.created"])
        for span in collector.spans.named("sync")
        if "memlane.sync.created" in span.attributes
    ]
    assert sum(counted) == 3 * states.DOCUMENTS


def test_nothing_of_queries_or_documents_is_told(told: Told) -> None:
    _, collector = told
    everything = "\n".join([*collector.spans.texts, collector.text()]).lower()
    assert "memlane.semantic.state" in everything
    for word in ("kettle", "green", "shelf", "xyzzy", "plugh"):
        assert word not in everything


def _is_ok(spans: Any, run: Span) -> bool:
    return any(
        span.trace == run.trace and span.attributes.get("memlane.semantic.state") == "ok"
        for span in spans.named("search")
    )
