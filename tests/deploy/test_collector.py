"""The collector's configuration fits itself, Prometheus and the service."""

from __future__ import annotations

from typing import Any

import yaml

from tests.deploy.expressions import DEPLOY

COLLECTOR: dict[str, Any] = yaml.safe_load((DEPLOY / "otel" / "collector.yaml").read_text())
PROMETHEUS: dict[str, Any] = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())


def test_pipelines_use_what_is_configured_and_all_of_it() -> None:
    service = COLLECTOR["service"]
    for part in ("receivers", "processors", "exporters"):
        used = {name for pipeline in service["pipelines"].values() for name in pipeline[part]}
        assert used == set(COLLECTOR[part]), part
    assert set(service["extensions"]) == set(COLLECTOR["extensions"])


def test_memory_is_limited_before_anything_is_gathered() -> None:
    for pipeline in COLLECTOR["service"]["pipelines"].values():
        assert pipeline["processors"][0] == "memory_limiter"


def test_prometheus_scrapes_where_the_collector_offers() -> None:
    port = COLLECTOR["exporters"]["prometheus"]["endpoint"].rpartition(":")[2]
    (job,) = PROMETHEUS["scrape_configs"]
    (target,) = job["static_configs"][0]["targets"]
    assert target.rpartition(":")[2] == port
    assert job["honor_labels"]  # else every process would be the collector
    assert COLLECTOR["exporters"]["prometheus"]["add_metric_suffixes"]


def test_otlp_is_taken_over_grpc_and_http_at_the_usual_ports() -> None:
    protocols = COLLECTOR["receivers"]["otlp"]["protocols"]
    assert {name: each["endpoint"].rpartition(":")[2] for name, each in protocols.items()} == {
        "grpc": "4317",
        "http": "4318",
    }
