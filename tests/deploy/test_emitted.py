"""A real `memlane up` with a sidecar tells exactly the metrics that are documented."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import httpx
import pytest

from embedder.builds.recipes import build
from golden.fleet.collector import Collector
from service.telemetry.names import METRICS, STUCK
from tests.e2e.service import Service, wait_for

WORKERS = 2
SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as running:
        yield running


@pytest.fixture(scope="module")
def told(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """Everything that Prometheus would see after some writing and asking, and how many searches."""
    folder: Path = tmp_path_factory.mktemp("emitted")
    build("tiny", folder / "tiny")
    service = Service(
        folder,
        MEMLANE_EMBEDDER=str(folder / "tiny"),
        MEMLANE_READER_WORKERS=str(WORKERS),
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_METRIC_EXPORT_INTERVAL="500",
    )
    try:
        version = service.write(
            *({"kind": "note", "ref": f"n{n}", "note": f"green kettle {n}"} for n in range(20)),
            durability="replicated",
        )
        wait_for(
            lambda: version == service.http.get(f"{service.reader}/v1/index").json()["version"]
        )
        asked = ask_all_workers(service, collector)
        wait_for(
            lambda: collector.names >= {each.name for each in METRICS} - {STUCK.name},
            what=f"{sorted({each.name for each in METRICS} - collector.names)}",
        )
        wait_for(lambda: counted(collector.text()) >= asked, what="the last searches")
        return collector.text(), asked
    finally:
        assert service.stop() == 0


def ask_all_workers(service: Service, collector: Collector) -> int:
    """Ask, on a connection of its own each time, until every worker has answered; how often."""
    numbers = count(1)

    def answered() -> int:
        number = next(numbers)
        body = {"q": f"green kettle of {number}"}
        key = {"authorization": service.http.headers["authorization"]}
        assert httpx.post(f"{service.reader}/v1/search", json=body, headers=key).is_success
        queries = samples(collector.text(), "memlane_search_queries_total")
        busy = {labels["instance"] for labels, value in queries if value}
        return number if len(busy) == WORKERS else 0

    return int(wait_for(answered, what="an answer of every worker"))


def samples(text: str, name: str) -> list[tuple[dict[str, str], float]]:
    return [
        (dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value))
        for found, labels, value in SAMPLE.findall(text)
        if found == name
    ]


def counted(text: str) -> float:
    return sum(value for _, value in samples(text, "memlane_search_queries_total"))


def test_what_is_told_is_what_is_documented(told: tuple[str, int], collector: Collector) -> None:
    # Nothing is stuck on a healthy node; that one is told when there is something to tell.
    assert collector.names - {STUCK.name} == {each.name for each in METRICS} - {STUCK.name}


def test_series_have_the_documented_names_and_labels(told: tuple[str, int]) -> None:
    text, _ = told
    known = {series: metric for metric in METRICS for series in metric.series}
    for name, labels, _ in SAMPLE.findall(text):
        assert name in known
        found = set(re.findall(r'(\w+)="', labels)) - {"job", "instance", "le"}
        assert found == set(known[name].labels), name


def test_workers_counters_sum_to_the_searches_sent(told: tuple[str, int]) -> None:
    text, asked = told
    assert counted(text) == asked
    durations = samples(text, "memlane_search_duration_seconds_count")
    whole = [value for labels, value in durations if labels["memlane_search_phase"] == "total"]
    assert len(whole) == WORKERS
    assert sum(whole) == asked


def test_every_process_says_who_it_is(told: tuple[str, int]) -> None:
    text, _ = told
    found = [labels for labels, _ in samples(text, "process_memory_usage_bytes")]
    jobs = sorted(labels["job"].removeprefix("memlane/memlane-") for labels in found)
    assert jobs == ["embedder", "follower", *["reader"] * WORKERS, "writer"]
    assert len({labels["instance"] for labels in found}) == len(found)


def test_twenty_documents_were_created_and_are_on_the_reader(told: tuple[str, int]) -> None:
    text, _ = told
    ((_, documents),) = samples(text, "memlane_sync_documents_total")
    assert documents == 20
    ((_, resident),) = samples(text, "memlane_replica_resident_tenants")
    assert resident >= 2  # the registry and the tenant
