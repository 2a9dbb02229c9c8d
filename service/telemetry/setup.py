"""The OpenTelemetry metrics provider of one worker process.

Built after the fork, in the application's lifespan, so that each worker has its own instance id
and its own exporting thread. Metrics leave the process only when an OTLP endpoint is configured,
by OpenTelemetry's own environment variables.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource

from service.errors import SetupError

METER_NAME: Final = "memlane"
FLUSH_MS: Final = 5_000
"""Longest that a stopping worker waits for its last metrics to leave."""

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_EXPORTER: Final = "opentelemetry.exporter.otlp.proto.http.metric_exporter"


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
    resource = Resource.create({"service.name": f"memlane-{role}", "service.namespace": "memlane"})
    readers = _readers(os.environ if environ is None else environ)
    provider = MeterProvider(metric_readers=readers, resource=resource)
    try:
        yield provider
    finally:
        provider.shutdown(timeout_millis=FLUSH_MS)


def _readers(environ: Mapping[str, str]) -> Sequence[MetricReader]:
    name = next((name for name in _ENDPOINTS if environ.get(name)), None)
    if name is None:
        return ()
    try:
        exporter = importlib.import_module(_EXPORTER)
    except ImportError as error:
        raise SetupError(
            f"{name} is set and the OTLP exporter is not installed",
            hint="Install opentelemetry-exporter-otlp-proto-http, or unset it.",
        ) from error
    return (PeriodicExportingMetricReader(exporter.OTLPMetricExporter()),)
