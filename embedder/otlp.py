"""The way out for metrics and spans: OTLP, where OpenTelemetry's own variables name an endpoint."""

from __future__ import annotations

import importlib
import os
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Literal, NamedTuple

from opentelemetry.metrics import Meter, NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracer, Tracer

from embedder.errors import SetupError

FLUSH_MS: Final = 5_000
"""Longest that a stopping sidecar waits for its last metrics to leave."""
EXPORT_S: Final = 3
"""Longest that one batch of spans takes to leave, with its retries."""
SILENT: Final = NoOpMeterProvider().get_meter("memlane")
"""Where nothing is to be told."""
UNTRACED: Final = NoOpTracer()

Signal = Literal["METRICS", "TRACES"]
_PARTS: Final[Mapping[Signal, str]] = {"METRICS": "metric", "TRACES": "trace"}
_PROTOCOLS: Final = {"http/protobuf": "http", "grpc": "grpc"}


class Telemetry(NamedTuple):
    """Where a sidecar tells."""

    meter: Meter = SILENT
    tracer: Tracer = UNTRACED


@contextmanager
def exported(environ: Mapping[str, str] | None = None) -> Iterator[Telemetry]:
    """Telemetry that leaves over OTLP where an endpoint is configured; the end sends what is left.

    Args:
        environ: where that is looked up; the process's own when None.

    Raises:
        SetupError: an endpoint is configured and the exporter is not installed.
    """
    environ = os.environ if environ is None else environ
    resource = _resource()
    metrics, spans = _exporter("METRICS", environ), _exporter("TRACES", environ)
    meters = tracers = None
    if metrics is not None:
        reader = PeriodicExportingMetricReader(metrics.OTLPMetricExporter())
        meters = MeterProvider(metric_readers=[reader], resource=resource)
    if spans is not None:
        tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
        tracers.add_span_processor(BatchSpanProcessor(spans.OTLPSpanExporter(timeout=EXPORT_S)))
    try:
        yield Telemetry(
            SILENT if meters is None else meters.get_meter("memlane"),
            UNTRACED if tracers is None else tracers.get_tracer("memlane"),
        )
    finally:
        if tracers is not None:
            tracers.shutdown()
        if meters is not None:
            meters.shutdown(timeout_millis=FLUSH_MS)


def _exporter(signal: Signal, environ: Mapping[str, str]) -> Any:
    """The exporter's module where an endpoint is configured for this signal, else None."""

    def first(what: str) -> str | None:
        names = f"OTEL_EXPORTER_OTLP_{signal}_{what}", f"OTEL_EXPORTER_OTLP_{what}"
        return next((name for name in names if environ.get(name)), None)

    endpoint, named = first("ENDPOINT"), first("PROTOCOL")
    if endpoint is None:
        return None
    protocol = environ[named] if named else "http/protobuf"
    if protocol not in _PROTOCOLS:
        raise SetupError(
            f"OTLP over {protocol} is not known", hint=f"Choose one of {', '.join(_PROTOCOLS)}."
        )
    module = f"opentelemetry.exporter.otlp.proto.{_PROTOCOLS[protocol]}.{_PARTS[signal]}_exporter"
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SetupError(
            f"{endpoint} is set and the OTLP exporter is not installed",
            hint="Install the extra: memlane[otlp].",
        ) from error


def _resource() -> Resource:
    return Resource.create(
        {
            "service.name": "memlane-embedder",
            "service.namespace": "memlane",
            "service.instance.id": f"{socket.gethostname()}-{os.getpid()}-{uuid.uuid4().hex[:8]}",
        }
    )
