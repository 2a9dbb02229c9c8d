"""Metrics and spans leave over both protocols, to real receivers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2_grpc import (
    MetricsServiceServicer,
    add_MetricsServiceServicer_to_server,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)

from embedder.errors import SetupError as SidecarSetupError
from embedder.metrics import Metrics
from embedder.otlp import exported
from golden.fleet.collector import Collector
from golden.fleet.spans import Spans
from service.errors import SetupError
from service.settings import Settings
from service.telemetry import names
from service.telemetry.setup import METER_NAME, start_metrics, start_traces


class Receiver(MetricsServiceServicer):
    """An OTLP receiver over gRPC that keeps names."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.instances: set[str] = set()
        self._lock = threading.Lock()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        with self._lock:
            for resource in request.resource_metrics:
                for pair in resource.resource.attributes:
                    if pair.key == "service.instance.id":
                        self.instances.add(pair.value.string_value)
                for scope in resource.scope_metrics:
                    self.names |= {metric.name for metric in scope.metrics}
        return ExportMetricsServiceResponse()


class SpanReceiver(TraceServiceServicer):
    """An OTLP receiver over gRPC that keeps spans."""

    def __init__(self) -> None:
        self.spans = Spans()

    def Export(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.spans.take(request)
        return ExportTraceServiceResponse()


@contextmanager
def receiving() -> Iterator[tuple[Receiver, str]]:
    receiver = Receiver()
    server = grpc.server(ThreadPoolExecutor(2))
    add_MetricsServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield receiver, f"http://127.0.0.1:{port}"
    finally:
        server.stop(0)


def tell(environ: dict[str, str]) -> None:
    with start_metrics("reader", environ=environ) as provider:
        names.EVICTIONS.counter(provider.get_meter(METER_NAME)).add(1)


def test_over_grpc(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as (receiver, url):
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        tell(environ)
        with exported(environ) as telemetry:
            Metrics(telemetry.meter).ran("query", 1, 0.1, failed=False)
    assert "memlane.replica.evictions" in receiver.names
    assert "memlane.embed.batch" in receiver.names
    assert len(receiver.instances) == 2


def test_spans_over_grpc() -> None:
    receiver, server = SpanReceiver(), grpc.server(ThreadPoolExecutor(2))
    add_TraceServiceServicer_to_server(receiver, server)  # type: ignore[no-untyped-call]
    url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        meter = NoOpMeterProvider().get_meter("test")
        with start_traces("reader", Settings(), meter, environ=environ) as (traces, outgoing):
            traces.get_tracer("test").start_span("served").end()
        with exported(environ) as telemetry:
            telemetry.tracer.start_span("embedded").end()
    server.stop(0)
    assert {(span.service, span.name) for span in receiver.spans.all()} == {
        ("memlane-reader", "served"),
        ("memlane-embedder", "embedded"),
    }
    assert outgoing is not None
    assert outgoing.counts() == {"exported": 1, "failed": 0, "dropped": 0}


def test_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with Collector() as collector:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        tell(environ)
        assert 'job="memlane/memlane-reader"' in collector.text()
    assert "memlane.replica.evictions" in collector.names


def test_an_unknown_protocol_stops_the_start() -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke",
    }
    with pytest.raises(SetupError, match="smoke"), start_metrics("reader", environ=environ):
        pass
    with pytest.raises(SidecarSetupError, match="smoke"), exported(environ):
        pass


def test_what_is_not_told_again_is_forgotten() -> None:
    with Collector(expires_s=0.0) as collector:
        environ = {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
            tell(environ)
        assert collector.names
        assert collector.text().strip() == ""
