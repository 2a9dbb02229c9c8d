from pathlib import Path

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import HistogramDataPoint, InMemoryMetricReader

from service.errors import SetupError
from service.semantic.state import LEGAL_PAIRS, NO_SIDECAR
from service.telemetry.searches import SearchTelemetry, search_telemetry
from service.telemetry.setup import start_metrics
from service.telemetry.states import StateCounter, read_totals


def test_one_search_adds_one_query_and_its_phases_in_seconds(tmp_path: Path) -> None:
    reader = InMemoryMetricReader()
    meter = MeterProvider(metric_readers=[reader]).get_meter("memlane")
    with StateCounter(tmp_path, role="reader") as counter:
        SearchTelemetry("reader", counter, meter).answered(NO_SIDECAR, {"lanes": 2.0, "total": 5.0})
    data = reader.get_metrics_data()
    assert data is not None
    metrics = {m.name: m for m in data.resource_metrics[0].scope_metrics[0].metrics}
    points = metrics["memlane.search.queries"].data.data_points
    assert len(points) == len(LEGAL_PAIRS)  # zeros too: a rate sees the first one of its kind
    (queries,) = (point for point in points if point.value)  # type: ignore[union-attr]
    assert queries.value == 1  # type: ignore[union-attr]
    assert queries.attributes == {
        "memlane.semantic.state": "disabled",
        "memlane.semantic.reason": "no_sidecar",
        "memlane.role": "reader",
    }
    assert metrics["memlane.search.duration"].unit == "s"
    sums = {}
    for point in metrics["memlane.search.duration"].data.data_points:
        assert isinstance(point, HistogramDataPoint)
        assert point.attributes is not None
        sums[point.attributes["memlane.search.phase"]] = point.sum
    assert sums == {"lanes": 0.002, "total": 0.005}


def test_without_an_endpoint_nothing_is_exported_and_the_exact_counters_still_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with search_telemetry("writer", tmp_path) as telemetry:
        telemetry.answered(NO_SIDECAR, {})
    assert read_totals(tmp_path) == {("writer", "disabled", "no_sidecar"): 1}


def test_an_endpoint_without_the_exporter_stops_the_start_and_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(
        __import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.metric_exporter", None
    )
    with (
        pytest.raises(SetupError, match="OTEL_EXPORTER_OTLP_ENDPOINT") as error,
        start_metrics("reader", environ={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}),
    ):
        pass
    assert "opentelemetry-exporter-otlp-proto-http" in error.value.hint
