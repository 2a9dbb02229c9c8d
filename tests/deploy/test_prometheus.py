"""A real Prometheus with the deployment's rules sees what a process tells over OTLP."""

from __future__ import annotations

from pathlib import Path

import pytest
from opentelemetry.metrics import Observation

from golden.fleet import prometheus
from golden.fleet.process import wait_for
from service.telemetry import names
from service.telemetry.setup import METER_NAME, start_metrics
from tests.deploy.expressions import alerts

SEEN_S = 40


@pytest.mark.usefixtures("installed")
def test_a_writer_that_is_far_behind_raises_its_alert_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with prometheus.running(tmp_path) as watching:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", watching.endpoint)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
        assert {alert.name for alert in watching.alerts()} == set(alerts())
        with start_metrics("writer") as provider:
            meter = provider.get_meter(METER_NAME)
            names.PUBLISH_LAG.observe(meter, lambda: [Observation(30.5, {"memlane.shard": 's"1'})])
            duration = names.SYNC_DURATION.histogram(meter)
            for seconds in (0.003, 0.003, 0.003, 0.2):
                duration.record(seconds, {"memlane.sync.durability": "local"})
            by_name = {alert.name: alert.expression for alert in watching.alerts()}
            wait_for(lambda: watching.holds(by_name["MemlanePublishLag"]), SEEN_S, "the alert")
            # A histogram came whole: its buckets, its sum, its count.
            count = 'memlane_sync_duration_seconds_bucket{le="0.005"}'
            assert watching.value(count) == 3
            assert watching.value("memlane_sync_duration_seconds_count") == 4
            assert watching.value("memlane_sync_duration_seconds_sum") == pytest.approx(0.209)
            where = (
                'memlane_publish_lag_seconds{memlane_shard="s\\"1",job="memlane/memlane-writer"}'
            )
            assert watching.value(where) == 30.5
            silent = {"MemlaneTelemetrySilent"}  # no reader tells anything here
            held = {name for name, expression in by_name.items() if watching.holds(expression)}
            assert held - silent == {"MemlanePublishLag"}
