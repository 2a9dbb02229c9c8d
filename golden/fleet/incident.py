"""Two minutes of trouble: are the alerts' expressions true within a minute of each fault?

A real sidecar with a real (tiny) model, a real writer and reader, a real Prometheus with the rules
of `deploy/prometheus`: windows, thresholds and intervals as deployed. The sidecar is killed and
comes back; then Litestream is stopped, and goes on.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from embedder.builds.recipes import build
from golden.fleet import prometheus, records
from golden.fleet.process import wait_for
from golden.fleet.prometheus import Alert, Prometheus
from golden.fleet.sidecar import SidecarNode
from golden.fleet.world import OK, Fleet, Tenant, running
from service.telemetry.names import METRICS

DOCUMENTS: Final = 100
QUERIES_PER_S: Final = 10.0
EXPORT_MS: Final = 5_000
"""As `docs/METRICS.md` says that a deployment should."""
LOOK_S: Final = 1.0
FILLED_S: Final = 120.0
LIMIT_S: Final = 60.0

HEALTHY_S: Final = 65.0
"""Longer than the shortest window, so that what is found does not owe to an empty Prometheus."""
FAULT_S: Final = 45.0
BETWEEN_S: Final = 10.0
EXPECTED: Final[Mapping[str, tuple[str, ...]]] = {
    "sidecar killed": ("MemlaneSemanticLost",),
    "Litestream stopped": ("MemlanePublishLag", "MemlaneReplicaStale", "MemlaneCanaryLate"),
}
"""Those whose windows were full before the fault. Burn rates over an hour hold here as well, and
sooner than with an hour of health behind them: they are shown, not counted."""

Progress = Callable[[str], None]


def run(*, model: str | None, program: str | None, progress: Progress) -> dict[str, Any]:
    """Play the incident.

    Args:
        model: of the sidecar: a folder, or a name; None builds the tiny one.
        program: Prometheus's path; None for the one that is installed.
        progress: is told what happens.

    Returns:
        `{"prometheus", "seconds", "queries", "headers": {HEADER: n}, "true_before": [ALERT],
        "faults": {FAULT: {"expected": {ALERT: seconds or null}, "others": {ALERT: seconds},
        "still_true": [ALERT], "states": {ALERT: state}}}, "within_s", "all_within",
        "unknown_metrics", "missing_metrics"}`; seconds from the fault until the expression held.

    Raises:
        SetupError: Prometheus, or what builds the model, is not installed.
        Unavailable: a part did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="memlane-incident-") as name:
        folder = Path(name)
        if model is None:
            build("tiny", folder / "tiny")
            model = str(folder / "tiny")
        with prometheus.running(folder, program) as watching:
            told = {
                "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": watching.endpoint,
                "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL": "http/protobuf",
                "OTEL_METRIC_EXPORT_INTERVAL": str(EXPORT_MS),
            }
            sidecar = SidecarNode(model, folder, environ=told)
            sidecar.start()
            try:
                environ = {
                    **told,
                    "MEMLANE_EMBEDDER": sidecar.address,
                    # A stopped Litestream is to stay stopped: nobody ends it for being silent.
                    "MEMLANE_LITESTREAM_SILENCE_MS": "600000",
                }
                with running("folder", environ=environ) as fleet:
                    return _played(fleet, sidecar, watching, progress)
            finally:
                sidecar.tree.stop()


def _played(
    fleet: Fleet, sidecar: SidecarNode, watching: Prometheus, progress: Progress
) -> dict[str, Any]:
    tenant = _filled(fleet)
    progress(f"Prometheus {watching.version}, {DOCUMENTS} documents embedded")
    headers: Counter[str] = Counter()
    with _asking(fleet, tenant, headers):
        counted = "sum(memlane_search_queries_total) > 0"
        wait_for(lambda: watching.holds(counted), LIMIT_S, "the first metrics")
        began = time.monotonic()
        time.sleep(HEALTHY_S)
        alerts = watching.alerts()
        before = [alert.name for alert in alerts if watching.holds(alert.expression)]
        progress(f"healthy for {HEALTHY_S:.0f} s; true: {', '.join(before) or 'none'}")
        faults = {}
        for fault, inject, heal in _faults(fleet, sidecar):
            faults[fault] = _hurt(watching, alerts, fault, inject, progress)
            heal()
            time.sleep(BETWEEN_S)
        seconds = time.monotonic() - began
    known = {series for metric in METRICS for series in metric.series}
    seen = {name for name in watching.names() if name.startswith(("memlane_", "process_"))}
    expected = [each for one in faults.values() for each in one["expected"].values()]
    return {
        "prometheus": watching.version,
        "seconds": round(seconds, 1),
        "queries": headers.total(),
        "headers": dict(headers),
        "true_before": before,
        "faults": faults,
        "within_s": LIMIT_S,
        "all_within": all(each is not None and each <= LIMIT_S for each in expected),
        "unknown_metrics": sorted(seen - known),
        "missing_metrics": sorted(known - seen),
    }


def _faults(
    fleet: Fleet, sidecar: SidecarNode
) -> Iterator[tuple[str, Callable[[], object], Callable[[], object]]]:
    """Name, how it begins, how it ends."""
    writer = fleet.writers[0].tree
    yield "sidecar killed", lambda: sidecar.tree.send(signal.SIGKILL), sidecar.start
    yield (
        "Litestream stopped",
        lambda: writer.send(signal.SIGSTOP, "litestream", "replicate"),
        lambda: writer.send(signal.SIGCONT, "litestream", "replicate"),
    )


def _hurt(
    watching: Prometheus,
    alerts: list[Alert],
    fault: str,
    inject: Callable[[], object],
    progress: Progress,
) -> dict[str, Any]:
    """One fault, watched for its time, and longer for an expression that is not true yet."""
    already = {alert.name for alert in alerts if watching.holds(alert.expression)}
    fresh = [alert for alert in alerts if alert.name not in already]
    inject()
    began = time.monotonic()
    seen: dict[str, float] = {}
    while (spent := time.monotonic() - began) < LIMIT_S:
        prometheus.first_true(watching, fresh, began, seen)
        if spent >= FAULT_S and seen.keys() >= set(EXPECTED[fault]):
            break
        time.sleep(LOOK_S)
    states = {alert.name: alert.state for alert in watching.alerts() if alert.name in seen}
    progress(f"{fault}: " + ", ".join(f"{name} after {at} s" for name, at in seen.items()))
    return {
        "expected": {name: seen.get(name) for name in EXPECTED[fault]},
        "others": {name: at for name, at in seen.items() if name not in EXPECTED[fault]},
        "still_true": sorted(already),
        "states": states,
    }


def _filled(fleet: Fleet) -> Tenant:
    """A tenant whose documents all have vectors."""
    tenant = fleet.create("incident")
    lines = [orjson.dumps(records.document("incident", n, n)) for n in range(DOCUMENTS)]
    fleet.write(tenant, b"\n".join(lines))
    url = f"{fleet.readers[0].url}/v1/index"

    def filled() -> bool:
        answer = fleet.http.get(url, headers=tenant.headers)
        if answer.status_code != OK:
            return False
        found = answer.json()
        return bool(found["documents"] == DOCUMENTS and found["vectors"]["coverage"] == 1.0)

    wait_for(filled, FILLED_S, "the vectors")
    return tenant


@contextlib.contextmanager
def _asking(fleet: Fleet, tenant: Tenant, headers: Counter[str]) -> Iterator[None]:
    """Steady searches in a thread, each with a text of its own."""
    ending = threading.Event()
    url = f"{fleet.readers[0].url}/v1/search"

    def ask() -> None:
        number = 0
        while not ending.wait(1 / QUERIES_PER_S):
            number += 1
            body = {"q": f"gateway timeout number {number}", "limit": 3}
            try:
                answer = fleet.http.post(url, json=body, headers=tenant.headers)
            except httpx.HTTPError as error:
                headers[type(error).__name__] += 1
            else:
                headers[answer.headers.get("memlane-semantic", str(answer.status_code))] += 1

    thread = threading.Thread(target=ask, name="asking", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def table(report: Mapping[str, Any]) -> Iterator[str]:
    """A line an alert."""
    yield (
        f"Prometheus {report['prometheus']}, {report['queries']} searches in"
        f" {report['seconds']:.0f} s"
    )
    yield f"{'fault':<22}{'alert':<32}{'true after':>12}  {'then':<9}"
    for fault, found in report["faults"].items():
        rows = {**found["expected"], **found["others"]}
        for alert, seconds in rows.items():
            shown = "not in time" if seconds is None else f"{seconds:.1f} s"
            state = found["states"].get(alert, "-")
            extra = "" if alert in found["expected"] else "  (besides)"
            yield f"{fault:<22}{alert:<32}{shown:>12}  {state:<9}{extra}"
    yield f"true before any fault: {', '.join(report['true_before']) or 'none'}"
    for name in ("unknown_metrics", "missing_metrics"):
        yield f"{name.replace('_', ' ')}: {', '.join(report[name]) or 'none'}"
    verdict = "yes" if report["all_within"] else "NO"
    yield f"all expected ones within {report['within_s']:.0f} s: {verdict}"
