"""A stand-in for the OpenTelemetry Collector: OTLP over HTTP in, Prometheus's text format out.

For a Prometheus that takes no OTLP, on a machine without a collector. It translates as the
collector's `prometheus` exporter does, and forgets what is not told again.
"""

from __future__ import annotations

import gzip
import threading
import time
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple, Self

from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from golden.fleet.attributes import attributes_of
from golden.fleet.process import free_ports
from golden.fleet.spans import Spans
from service.telemetry.names import prometheus_label, prometheus_name

EXPIRES_S: Final = 30.0
BODY_BYTES: Final = 16 << 20
METRICS: Final = "/v1/metrics"
TRACES: Final = "/v1/traces"

Labels = tuple[tuple[str, str], ...]


class _Kept(NamedTuple):
    """A point as it came last."""

    told: float
    name: str
    kind: str
    point: Any


class Collector:
    """Listens on this machine; enter it to start.

    Attributes:
        url: where it takes OTLP and offers `/metrics`.
        spans: those that came.
    """

    def __init__(self, *, expires_s: float = EXPIRES_S) -> None:
        (port,) = free_ports(1)
        self.target = f"127.0.0.1:{port}"
        self.url = f"http://{self.target}"
        self._expires_s = expires_s
        self.spans: Final = Spans()
        self._lock = threading.Lock()
        self._names: set[str] = set()
        self._kept: dict[tuple[str, Labels], _Kept] = {}
        handler = type("Handler", (_Handler,), {"collector": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def names(self) -> frozenset[str]:
        """Every metric that ever came, by its own name."""
        with self._lock:
            return frozenset(self._names)

    def total(self, name: str, attribute: str, value: str) -> float:
        """The sum of a metric's last points over all processes, where an attribute has a value."""
        label = (prometheus_label(attribute), value)
        points = [point for labels, point in self._points(name) if label in labels]
        return float(sum(point.as_int or point.as_double for point in points))

    def points(self, name: str) -> list[Any]:
        """A metric's last points, as they came."""
        return [point for _, point in self._points(name)]

    def _points(self, name: str) -> list[tuple[Labels, Any]]:
        with self._lock:
            return [
                (labels, kept.point)
                for (_, labels), kept in self._kept.items()
                if kept.name == name
            ]

    def take(self, request: ExportMetricsServiceRequest) -> None:
        """Keep what a process told."""
        now = time.monotonic()
        with self._lock:
            for resource in request.resource_metrics:
                told = attributes_of(resource.resource.attributes)
                where = {
                    "job": f"{told['service.namespace']}/{told['service.name']}",
                    "instance": told["service.instance.id"],
                }
                for scope in resource.scope_metrics:
                    for metric in scope.metrics:
                        self._take(metric, where, now)

    def text(self) -> str:
        """Everything that is not too old, in the text format."""
        least = time.monotonic() - self._expires_s
        with self._lock:
            self._kept = {key: kept for key, kept in self._kept.items() if kept.told > least}
            found = sorted(self._kept.items(), key=lambda item: item[0])
        lines: list[str] = []
        last = ""
        for (name, labels), kept in found:
            if name != last:
                lines.append(f"# TYPE {name} {kept.kind}")
                last = name
            lines.extend(_samples(name, labels, kept))
        return "\n".join(lines) + "\n"

    def _take(self, metric: Any, where: Mapping[str, str], now: float) -> None:
        kind = metric.WhichOneof("data")
        self._names.add(metric.name)
        data = getattr(metric, kind)
        monotonic = kind == "sum" and data.is_monotonic
        name = prometheus_name(metric.name, metric.unit, monotonic=monotonic)
        shown = "counter" if monotonic else "histogram" if kind == "histogram" else "gauge"
        for point in data.data_points:
            attributes = attributes_of(point.attributes)
            labels = {prometheus_label(key): value for key, value in attributes.items()}
            key = (name, tuple(sorted((labels | dict(where)).items())))
            self._kept[key] = _Kept(now, metric.name, shown, point)


class _Handler(BaseHTTPRequestHandler):
    """One request."""

    collector: Collector

    def do_POST(self) -> None:
        """Take metrics and spans; whatever else comes is thrown away."""
        body = self.rfile.read(min(int(self.headers.get("content-length", 0)), BODY_BYTES))
        try:
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            if self.path == METRICS:
                self.collector.take(ExportMetricsServiceRequest.FromString(body))
            elif self.path == TRACES:
                self.collector.spans.take(ExportTraceServiceRequest.FromString(body))
        except (DecodeError, OSError, KeyError):
            self._answer(HTTPStatus.BAD_REQUEST, b"")
        else:
            self._answer(HTTPStatus.OK, b"")

    def do_GET(self) -> None:
        """Tell Prometheus."""
        self._answer(HTTPStatus.OK, self.collector.text().encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Stay quiet."""

    def _answer(self, status: HTTPStatus, body: bytes) -> None:
        self.send_response(status)
        self.send_header("content-type", "text/plain; version=0.0.4; charset=utf-8")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _samples(name: str, labels: Labels, kept: _Kept) -> Iterator[str]:
    point = kept.point
    if kept.kind != "histogram":
        value = point.as_int if point.WhichOneof("value") == "as_int" else point.as_double
        yield f"{name}{_shown(labels)} {value}"
        return
    count = 0
    for bound, inside in zip(
        (*point.explicit_bounds, float("inf")), point.bucket_counts, strict=True
    ):
        count += inside
        le = "+Inf" if bound == float("inf") else f"{bound:g}"
        yield f"{name}_bucket{_shown((*labels, ('le', le)))} {count}"
    yield f"{name}_sum{_shown(labels)} {point.sum}"
    yield f"{name}_count{_shown(labels)} {point.count}"


def _shown(labels: Labels) -> str:
    quoted = (
        '{}="{}"'.format(name, value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\""))
        for name, value in labels
    )
    return "{" + ",".join(quoted) + "}"
