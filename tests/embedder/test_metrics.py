"""What the sidecar tells is what the page of metrics says of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, Metric

from embedder.metrics import Metrics
from embedder.model import Model
from embedder.otlp import SILENT, Telemetry, exported
from embedder.scheduler import Kind, Scheduler
from embedder.server import Server, Serving
from service.telemetry import names

DOCUMENTED = {
    each.name: each for each in names.METRICS if each.told_by in ("sidecar", "each process")
}


def told(reader: InMemoryMetricReader) -> dict[str, Metric]:
    data = reader.get_metrics_data()
    assert data is not None
    return {
        metric.name: metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    }


def test_a_server_tells_every_documented_metric_with_its_unit_words_and_attributes(
    tiny: Path,
) -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("memlane")
    model = Model(tiny)
    server = Server(model, Serving("127.0.0.1:0"), telemetry=Telemetry(meter))
    scheduler: Scheduler = server._scheduler
    tokens = model.tokenizer.query("green kettle")
    (future,) = scheduler.submit(Kind.QUERY, [tokens])
    future.result(20)
    assert scheduler.drain(20)
    found = told(reader)
    assert set(found) == set(DOCUMENTED)
    for name, metric in found.items():
        documented = DOCUMENTED[name]
        assert (metric.unit, metric.description) == (documented.unit, documented.about)
        for point in metric.data.data_points:
            assert set(point.attributes or {}) == set(documented.attributes)
    (provider,) = found["memlane.embed.provider"].data.data_points
    assert provider.attributes == {
        "memlane.embed.provider.asked": "CPUExecutionProvider",
        "memlane.embed.provider.used": "CPUExecutionProvider",
        "memlane.embed.device": "cpu",
        "memlane.embed.model": model.id,
    }
    (batch,) = found["memlane.embed.batch"].data.data_points
    assert batch.sum == 1  # type: ignore[union-attr]
    assert batch.explicit_bounds == names.TEXTS  # type: ignore[union-attr]
    (duration,) = found["memlane.embed.duration"].data.data_points
    assert duration.explicit_bounds == names.RUN_S  # type: ignore[union-attr]


def test_a_run_that_fails_is_counted_as_one() -> None:
    reader = InMemoryMetricReader()
    metrics = Metrics(MeterProvider(metric_readers=[reader]).get_meter("memlane"))
    metrics.ran("passage", 8, 0.5, failed=True)
    metrics.ran("passage", 8, 0.5, failed=False)
    (failures,) = told(reader)["memlane.embed.failures"].data.data_points
    assert failures.value == 1  # type: ignore[union-attr]
    (batch,) = told(reader)["memlane.embed.batch"].data.data_points
    assert (batch.count, batch.sum) == (2, 16)  # type: ignore[union-attr]


def test_without_an_endpoint_nothing_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with exported({}) as telemetry:
        assert telemetry.meter is SILENT
