"""Each group of instruments, fed by hand and read back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric

from service.index.writer import BatchResult, LineResult
from service.replica.counters import Counters
from service.replica.vitals import NOTHING_KNOWN, NodeHealth, ShardHealth
from service.semantic.state import NO_SIDECAR
from service.telemetry import names
from service.telemetry.backfill import observe_backfill
from service.telemetry.processes import observe_process
from service.telemetry.publishing import observe_publishing
from service.telemetry.queries import observe_queries
from service.telemetry.replicas import Activations, observe_follower, observe_freshness
from service.telemetry.states import StateCounter
from service.telemetry.syncing import Syncing


class Told:
    """A meter, and what its instruments say when asked."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        self.meter: Meter = MeterProvider(metric_readers=[self._reader]).get_meter("memlane")

    def metrics(self) -> dict[str, Metric]:
        data = self._reader.get_metrics_data()
        if data is None:
            return {}
        return {
            metric.name: metric
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

    def values(self, metric: names.Metric) -> dict[tuple[object, ...], float]:
        """Values by attributes, in the documented order; of histograms, sums."""
        found = self.metrics().get(metric.name)
        if found is None:
            return {}
        assert (found.unit, found.description) == (metric.unit, metric.about)
        values = {}
        for point in found.data.data_points:
            attributes: Mapping[str, Any] = point.attributes or {}
            assert set(attributes) == set(metric.attributes)
            key = tuple(attributes[name] for name in metric.attributes)
            values[key] = point.sum if metric.kind == "histogram" else point.value  # type: ignore[union-attr]
        return values


def health(**changes: Any) -> NodeHealth:
    shards = (
        ShardHealth("main", heads_age_ms=1_500, polled_age_ms=100, canary_age_ms=4_000),
        ShardHealth("s2", heads_age_ms=30_000, polled_age_ms=100, canary_age_ms=None),
    )
    facts: dict[str, Any] = {
        "heads_age_ms": 30_000,
        "polled_age_ms": 100,
        "canary_age_ms": 4_000,
        "registry_resident": True,
        "replicas": 7,
        "replica_bytes": 9_000,
        "unchecked": 0,
        "stuck": {"damage": (2, 60_000)},
        "shards": shards,
    }
    return NodeHealth(**(facts | changes))


def test_ages_are_seconds_by_shard_and_a_canary_that_never_came_has_none() -> None:
    told = Told()
    observe_freshness(told.meter, health)
    assert told.values(names.REPLICA_STALENESS) == {("main",): 1.5, ("s2",): 30.0}
    assert told.values(names.CANARY_AGE) == {("main",): 4.0}


def test_a_node_that_knows_nothing_tells_no_age_rather_than_a_young_one() -> None:
    told = Told()
    observe_freshness(told.meter, lambda: NOTHING_KNOWN)
    assert told.values(names.REPLICA_STALENESS) == {}
    assert told.values(names.CANARY_AGE) == {}


def test_the_follower_tells_what_is_here_and_what_it_did() -> None:
    told, counters = Told(), Counters()
    for name, count in (("evictions", 3), ("seeds", 5), ("failed_polls", 2), ("quarantined", 1)):
        counters.add(name, count)
    observe_follower(told.meter, counters, health)
    assert told.values(names.RESIDENT_TENANTS) == {(): 7}
    assert told.values(names.RESIDENT_SIZE) == {(): 9_000}
    assert told.values(names.EVICTIONS) == {(): 3}
    assert told.values(names.RESTORES) == {(): 5}
    assert told.values(names.STUCK) == {("damage",): 2}
    assert told.values(names.FOLLOW_FAILURES) == {
        ("poll",): 2,
        ("listing",): 0,
        ("catch_up",): 0,
        ("quarantined",): 1,
    }


def test_activations_are_told_by_temperature() -> None:
    told = Told()
    activations = Activations(told.meter)
    activations.opened("cold", 0.25)
    activations.opened("hot", 0.001)
    activations.opened("cold", 0.25)
    assert told.values(names.ACTIVATION_DURATION) == {("cold",): 0.5, ("hot",): 0.001}


class Publishing:
    """A publisher as the instruments see it."""

    def __init__(self, lag_ms: int, silent_ms: int) -> None:
        self.counters = Counters()
        self._lag_ms, self._silent_ms = lag_ms, silent_ms

    def lag_ms(self) -> int:
        return self._lag_ms

    def silent_ms(self) -> int:
        return self._silent_ms


@pytest.mark.parametrize(("lag_ms", "silent_ms"), [(12_000, 0), (300, 12_000)])
def test_publish_lag_is_the_worse_of_what_waits_and_silence(lag_ms: int, silent_ms: int) -> None:
    told, publisher = Told(), Publishing(lag_ms, silent_ms)
    publisher.counters.add("publications", 8)
    publisher.counters.add("litestream_silent", 4)
    observe_publishing(told.meter, "main", publisher)
    assert told.values(names.PUBLISH_LAG) == {("main",): 12.0}
    assert told.values(names.PUBLICATIONS) == {("main",): 8}
    assert told.values(names.PUBLISH_FAILURES) == {
        ("main", "publication"): 0,
        ("main", "upload"): 0,
        ("main", "litestream_silent"): 4,
    }


def batch(*results: str, replayed: bool = False) -> BatchResult:
    lines = [
        LineResult(line=n, kind="note", ref=str(n), result=result)  # type: ignore[arg-type]
        for n, result in enumerate(results)
    ]
    return BatchResult(version=1, results=lines, replayed=replayed)


def test_documents_are_counted_by_what_became_of_them_and_once() -> None:
    told = Told()
    syncing = Syncing(told.meter)
    syncing.applied(batch("created", "created", "unchanged"), "local", 0.5)
    syncing.applied(batch("created", "created", "unchanged", replayed=True), "local", 0.25)
    syncing.applied(batch("deleted"), "replicated", 1.0)
    assert told.values(names.SYNC_DOCUMENTS) == {
        ("created",): 2,
        ("unchanged",): 1,
        ("deleted",): 1,
    }
    assert told.values(names.SYNC_DURATION) == {("local",): 0.75, ("replicated",): 1.0}


def test_coverage_is_a_share_by_kind_and_nothing_to_do_is_all_done() -> None:
    told = Told()
    progress = {
        "by_kind": {
            "note": {"documents": 4, "complete": 1},
            "skill": {"documents": 0, "complete": 0},
        },
        "pending": 3,
        "oldest_missing_ms": 2_500,
        "passages": 9,
        "documents": 1,
    }
    observe_backfill(told.meter, lambda: progress)
    assert told.values(names.VECTORS_COVERAGE) == {("note",): 0.25, ("skill",): 1.0}
    assert told.values(names.BACKFILL_PENDING) == {(): 3}
    assert told.values(names.BACKFILL_OLDEST) == {(): 2.5}
    assert told.values(names.BACKFILL_PASSAGES) == {(): 9}
    assert told.values(names.BACKFILL_FAILED) == {(): 0}


def test_a_process_tells_its_cpu_time_and_memory() -> None:
    told = Told()
    observe_process(told.meter)
    cpu = told.values(names.PROCESS_CPU)
    assert set(cpu) == {("user",), ("system",)}
    assert cpu[("user",)] > 0
    assert told.values(names.PROCESS_MEMORY)[()] > 1 << 20


def test_a_worker_that_goes_on_with_a_slot_tells_only_its_own_searches(tmp_path: Path) -> None:
    told, later = Told(), Told()
    with StateCounter(tmp_path, role="reader") as first:
        observe_queries(told.meter, first)
        for _ in range(3):
            first.count(NO_SIDECAR)
    with StateCounter(tmp_path, role="reader") as second:
        observe_queries(later.meter, second)
        second.count(NO_SIDECAR)
        assert second.totals() == {("reader", "disabled", "no_sidecar"): 4}
        mine = later.values(names.SEARCH_QUERIES)
    # The first is closed: its last export still tells all that it counted.
    theirs = told.values(names.SEARCH_QUERIES)
    key = ("disabled", "no_sidecar", "reader")
    assert (theirs[key], mine[key]) == (3, 1)
    assert sum(theirs.values()) + sum(mine.values()) == 4


def test_names_are_unique_and_documented() -> None:
    assert len({each.name for each in names.METRICS}) == len(names.METRICS)
    series = [one for each in names.METRICS for one in each.series]
    assert len(set(series)) == len(series)
    for each in names.METRICS:
        assert f"| `{each.name}` |" in names.table()
        assert bool(each.bounds) == (each.kind == "histogram")
        assert list(each.bounds) == sorted(each.bounds)
