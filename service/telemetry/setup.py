"""The OpenTelemetry providers of one worker process: metrics and traces.

Built after the fork, in the application's lifespan, so that each worker has its own instance id
and its own exporting threads. Metrics and spans leave the process only when an OTLP endpoint is
configured, by OpenTelemetry's own environment variables.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import NoOpTracerProvider
from opentelemetry.trace import TracerProvider as AnyTracerProvider

from service.errors import SetupError

METER_NAME: Final = "memlane"
FLUSH_MS: Final = 5_000
"""Longest that a stopping worker waits for its last metrics to leave."""

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.metric_exporter"
_TRACES_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SPAN_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"


@contextmanager
def start_metrics(
    role: str, *, environ: Mapping[str, str] | None = None
) -> Iterator[MeterProvider]:
    """A metrics provider for this process; leaving it sends what is left.

    Args:
        role: `reader` or `writer`; becomes the service's name in the resource.
        environ: where the OTLP endpoint is looked up; the process's own when None.

    Raises:
        SetupError: an endpoint is configured and the exporter is not installed.
    """
    readers = _readers(os.environ if environ is None else environ)
    provider = MeterProvider(metric_readers=readers, resource=_resource(role))
    try:
        yield provider
    finally:
        provider.shutdown(timeout_millis=FLUSH_MS)


@contextmanager
def start_traces(
    role: str, *, environ: Mapping[str, str] | None = None
) -> Iterator[AnyTracerProvider]:
    """A traces provider for this process; without an endpoint its spans cost nothing.

    Args:
        role: as for `start_metrics`.
        environ: as for `start_metrics`.

    Raises:
        SetupError: an endpoint is configured and the exporter is not installed.
    """
    exporter = _exporter(
        _TRACES_ENDPOINTS, _SPAN_EXPORTER, os.environ if environ is None else environ
    )
    if exporter is None:
        yield NoOpTracerProvider()
        return
    provider = TracerProvider(resource=_resource(role), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter.OTLPSpanExporter()))
    try:
        yield provider
    finally:
        provider.force_flush(FLUSH_MS)
        provider.shutdown()


def _resource(role: str) -> Resource:
    return Resource.create({"service.name": f"memlane-{role}", "service.namespace": "memlane"})


def _readers(environ: Mapping[str, str]) -> Sequence[MetricReader]:
    exporter = _exporter(_ENDPOINTS, _EXPORTER, environ)
    if exporter is None:
        return ()
    return (PeriodicExportingMetricReader(exporter.OTLPMetricExporter()),)


def _exporter(endpoints: Sequence[str], module: str, environ: Mapping[str, str]) -> Any:
    """The exporter's module where one of these endpoints is configured, else None."""
    name = next((name for name in endpoints if environ.get(name)), None)
    if name is None:
        return None
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SetupError(
            f"{name} is set and the OTLP exporter is not installed",
            hint="Install opentelemetry-exporter-otlp-proto-http, or unset it.",
        ) from error
