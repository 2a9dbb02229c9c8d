"""The OpenTelemetry providers of one worker process: metrics and traces.

Built after the fork, in the application's lifespan, so that each worker has its own instance id
and its own exporting threads. Metrics and spans leave the process only when an OTLP endpoint is
configured, by OpenTelemetry's own environment variables.
"""

from __future__ import annotations

import functools
import importlib
import os
import socket
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

from opentelemetry.metrics import Meter
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider as SdkTracerProvider
from opentelemetry.trace import NoOpTracerProvider, TracerProvider

from service.errors import SetupError
from service.settings import Settings
from service.telemetry.traces import AllRecorded, KeepNotable, Outgoing, observe_spans

METER_NAME: Final = "memlane"
FLUSH_MS: Final = 5_000
"""Longest that a stopping worker waits for its last metrics to leave."""

EXPORT_S: Final = 3
"""Longest that one batch of spans takes to leave, with its retries."""


class _Signal(NamedTuple):
    """What OpenTelemetry calls a signal: its variables and its exporters' module."""

    name: str

    @property
    def endpoints(self) -> tuple[str, ...]:
        return f"OTEL_EXPORTER_OTLP_{self.name}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"

    @property
    def protocols(self) -> tuple[str, ...]:
        return f"OTEL_EXPORTER_OTLP_{self.name}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"

    def module(self, protocol: str) -> str:
        part = {"METRICS": "metric", "TRACES": "trace"}[self.name]
        return f"opentelemetry.exporter.otlp.proto.{protocol}.{part}_exporter"


METRICS: Final = _Signal("METRICS")
TRACES: Final = _Signal("TRACES")
_PROTOCOLS: Final = {"http/protobuf": "http", "grpc": "grpc"}


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
    role: str, settings: Settings, meter: Meter, *, environ: Mapping[str, str] | None = None
) -> Iterator[tuple[TracerProvider, Outgoing | None]]:
    """A traces provider for this process; and its way out; without an endpoint its spans
    cost nothing and go nowhere.

    Args:
        role: as for `start_metrics`.
        settings: which traces leave, and how many spans wait.
        meter: tells what became of the spans.
        environ: as for `start_metrics`.

    Raises:
        SetupError: an endpoint is configured and the exporter is not installed.
    """
    environ = os.environ if environ is None else environ
    exporter = _exporter(TRACES, environ)
    if exporter is None:
        yield NoOpTracerProvider(), None
        return
    outgoing = Outgoing(
        exporter.OTLPSpanExporter(timeout=EXPORT_S), waiting_most=settings.trace_spans
    )
    observe_spans(meter, outgoing)
    provider = SdkTracerProvider(
        sampler=AllRecorded(settings.trace_percent / 100),
        resource=_resource(role),
        shutdown_on_exit=False,
    )
    provider.add_span_processor(KeepNotable(outgoing, slow_ms=settings.trace_slow_ms))
    try:
        yield provider, outgoing
    finally:
        provider.shutdown()


def _resource(role: str) -> Resource:
    return Resource.create(
        {
            "service.name": f"memlane-{role}",
            "service.namespace": "memlane",
            "service.instance.id": _instance_id(os.getpid()),
        }
    )


@functools.cache
def _instance_id(pid: int) -> str:
    """One name a process, for its metrics and its spans; it says where to look for the process."""
    return f"{socket.gethostname()}-{pid}-{uuid.uuid4().hex[:8]}"


def _readers(environ: Mapping[str, str]) -> Sequence[MetricReader]:
    exporter = _exporter(METRICS, environ)
    if exporter is None:
        return ()
    return (PeriodicExportingMetricReader(exporter.OTLPMetricExporter()),)


def _exporter(signal: _Signal, environ: Mapping[str, str]) -> Any:
    """The exporter's module where an endpoint is configured for this signal, else None."""
    protocol = next((environ[n] for n in signal.protocols if environ.get(n)), "http/protobuf")
    if protocol not in _PROTOCOLS:
        raise SetupError(
            f"OTLP over {protocol} is not known", hint=f"Choose one of {', '.join(_PROTOCOLS)}."
        )
    name = next((name for name in signal.endpoints if environ.get(name)), None)
    if name is None:
        return None
    try:
        return importlib.import_module(signal.module(_PROTOCOLS[protocol]))
    except ImportError as error:
        package = f"opentelemetry-exporter-otlp-proto-{_PROTOCOLS[protocol]}"
        raise SetupError(
            f"{name} is set and the OTLP exporter is not installed",
            hint=f"Install {package}, or unset it.",
        ) from error
