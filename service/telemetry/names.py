"""Every metric there is: name, kind, unit, attributes, and what it says.

Instruments are made from these lines, `docs/METRICS.md` is generated from them, and what a rule or
a dashboard asks for is checked against them. Those of the sidecar are here too, for the page: the
sidecar shares no code with the service, and a test holds the two equal.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Final, Literal

from opentelemetry.metrics import CallbackOptions, Counter, Histogram, Meter, Observation

Kind = Literal["counter", "gauge", "histogram"]
Observe = Callable[[], Iterable[Observation]]

_OTHER: Final = re.compile(r"[^a-zA-Z0-9_]")
_ANNOTATION: Final = re.compile(r"\{[^}]*\}")
_UNITS: Final = {"s": "seconds", "By": "bytes", "1": "ratio"}

SEARCH_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""Upper bounds of a search's duration; 0.25 is what `docs/SLO.md` promises."""
OPEN_S: Final = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0)
RUN_S: Final = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
TEXTS: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)


@dataclasses.dataclass(frozen=True, slots=True)
class Metric:
    """One metric.

    Attributes:
        name: as OpenTelemetry has it.
        kind: a counter is monotonic and cumulative.
        unit: in UCUM.
        about: what it says, and how to sum it where that is not plain.
        told_by: which process.
        attributes: their names.
        bounds: upper bounds of a histogram's buckets.
    """

    name: str
    kind: Kind
    unit: str
    about: str
    told_by: str
    attributes: tuple[str, ...] = ()
    bounds: tuple[float, ...] = ()

    def counter(self, meter: Meter) -> Counter:
        """A counter to add to."""
        return meter.create_counter(self.name, unit=self.unit, description=self.about)

    def histogram(self, meter: Meter) -> Histogram:
        """A histogram to record in."""
        return meter.create_histogram(
            self.name,
            unit=self.unit,
            description=self.about,
            explicit_bucket_boundaries_advisory=self.bounds,
        )

    def observe(self, meter: Meter, read: Observe) -> None:
        """Have it read whenever metrics are collected."""

        def callback(_: CallbackOptions) -> Iterable[Observation]:
            return read()

        create = (
            meter.create_observable_counter
            if self.kind == "counter"
            else meter.create_observable_gauge
        )
        create(self.name, [callback], unit=self.unit, description=self.about)

    @property
    def prometheus(self) -> str:
        """Its name in Prometheus, without the suffixes of a histogram's series."""
        return prometheus_name(self.name, self.unit, monotonic=self.kind == "counter")

    @property
    def labels(self) -> tuple[str, ...]:
        """Its attributes' names in Prometheus."""
        return tuple(map(prometheus_label, self.attributes))

    @property
    def series(self) -> tuple[str, ...]:
        """The names of its series in Prometheus."""
        if self.kind != "histogram":
            return (self.prometheus,)
        return tuple(f"{self.prometheus}_{end}" for end in ("bucket", "sum", "count"))


def prometheus_name(name: str, unit: str, *, monotonic: bool) -> str:
    """A metric's name as the collector and Prometheus translate it.

    From "Prometheus and OpenMetrics Compatibility" of the OpenTelemetry specification: other
    characters become `_`, the unit is spelled out and appended unless the name has it, what stands
    in braces is left out, `1` becomes `ratio` on what is no counter, monotonic sums get `_total`.

    Args:
        name: of the metric.
        unit: in UCUM; s, By, 1, and annotations are known.
        monotonic: a sum that never falls.

    Raises:
        KeyError: another unit.
    """
    words = _OTHER.sub("_", name).split("_")
    if (plain := _ANNOTATION.sub("", unit)) and not (plain == "1" and monotonic):
        spelled = _UNITS[plain]
        words += [spelled] if spelled not in words else []
    if monotonic:
        words = [word for word in words if word != "total"] + ["total"]
    return "_".join(words)


def prometheus_label(attribute: str) -> str:
    """An attribute's name in Prometheus."""
    return _OTHER.sub("_", attribute)


_WEB: Final = "each worker"
_READER: Final = "each worker of a reader"
_FOLLOWER: Final = "follower"
_WRITER: Final = "writer"
_SIDECAR: Final = "sidecar"
_ANY: Final = "each process"

SEARCH_QUERIES: Final = Metric(
    "memlane.search.queries",
    "counter",
    "{query}",
    "Searches answered by this worker, by what became of the semantic lane.",
    _WEB,
    ("memlane.semantic.state", "memlane.semantic.reason", "memlane.role"),
)
SEARCH_DURATION: Final = Metric(
    "memlane.search.duration",
    "histogram",
    "s",
    "Time a search took, by phase; `total` is the whole.",
    _WEB,
    ("memlane.search.phase", "memlane.role"),
    SEARCH_S,
)
REPLICA_STALENESS: Final = Metric(
    "memlane.replica.staleness",
    "gauge",
    "s",
    "Age of what this reader knows of a shard. All workers of a node tell the same: take the"
    " maximum.",
    _READER,
    ("memlane.shard",),
)
CANARY_AGE: Final = Metric(
    "memlane.replica.canary.age",
    "gauge",
    "s",
    "Time since a shard's canary last arrived here. Take the maximum.",
    _READER,
    ("memlane.shard",),
)
ACTIVATION_DURATION: Final = Metric(
    "memlane.replica.activation.duration",
    "histogram",
    "s",
    "Time until a tenant's file was held for a query, by how it came to it: hot, warm or cold.",
    _READER,
    ("memlane.temperature",),
    OPEN_S,
)
RESIDENT_TENANTS: Final = Metric(
    "memlane.replica.resident.tenants", "gauge", "{tenant}", "Files on this node's disk.", _FOLLOWER
)
RESIDENT_SIZE: Final = Metric(
    "memlane.replica.resident.size", "gauge", "By", "Their size.", _FOLLOWER
)
EVICTIONS: Final = Metric(
    "memlane.replica.evictions", "counter", "{tenant}", "Files removed to make room.", _FOLLOWER
)
RESTORES: Final = Metric(
    "memlane.replica.restores",
    "counter",
    "{tenant}",
    "Files brought here whole from the object store.",
    _FOLLOWER,
)
STUCK: Final = Metric(
    "memlane.replica.stuck",
    "gauge",
    "{tenant}",
    "Files that cannot be brought up, by cause; nothing when there are none.",
    _FOLLOWER,
    ("memlane.cause",),
)
FOLLOW_FAILURES: Final = Metric(
    "memlane.replica.failures",
    "counter",
    "{failure}",
    "What the follower failed in: a look at heads (`poll`), a listing of shards, a catch-up; and"
    " files it set aside as damaged.",
    _FOLLOWER,
    ("memlane.cause",),
)
PUBLISH_LAG: Final = Metric(
    "memlane.publish.lag",
    "gauge",
    "s",
    "How far announcements are behind: age of the oldest commit that is not announced, or the"
    " silence beyond the usual heartbeat if that is longer.",
    _WRITER,
    ("memlane.shard",),
)
PUBLICATIONS: Final = Metric(
    "memlane.publish.publications",
    "counter",
    "{publication}",
    "Heads written.",
    _WRITER,
    ("memlane.shard",),
)
PUBLISH_FAILURES: Final = Metric(
    "memlane.publish.failures",
    "counter",
    "{failure}",
    "What failed: writing heads (`publication`), an upload (`upload`); rounds in which Litestream"
    " did not answer (`litestream_silent`).",
    _WRITER,
    ("memlane.shard", "memlane.cause"),
)
SYNC_DOCUMENTS: Final = Metric(
    "memlane.sync.documents",
    "counter",
    "{document}",
    "Documents of batches that were applied, by what became of them; a repeated batch adds none.",
    _WRITER,
    ("memlane.sync.result",),
)
SYNC_DURATION: Final = Metric(
    "memlane.sync.duration",
    "histogram",
    "s",
    "Time from a batch that was read to its acknowledgement.",
    _WRITER,
    ("memlane.sync.durability",),
    SEARCH_S,
)
VECTORS_COVERAGE: Final = Metric(
    "memlane.vectors.coverage",
    "gauge",
    "1",
    "Share of documents that have all their vectors, by kind.",
    _WRITER,
    ("memlane.kind",),
)
BACKFILL_PENDING: Final = Metric(
    "memlane.backfill.pending", "gauge", "{document}", "Documents without vectors.", _WRITER
)
BACKFILL_OLDEST: Final = Metric(
    "memlane.backfill.oldest_age", "gauge", "s", "Age of the oldest missing vector.", _WRITER
)
BACKFILL_PASSAGES: Final = Metric(
    "memlane.backfill.passages", "counter", "{passage}", "Passages embedded.", _WRITER
)
BACKFILL_DOCUMENTS: Final = Metric(
    "memlane.backfill.documents",
    "counter",
    "{document}",
    "Documents that got all their vectors.",
    _WRITER,
)
BACKFILL_QUARANTINED: Final = Metric(
    "memlane.backfill.quarantined", "counter", "{document}", "Documents given up.", _WRITER
)
BACKFILL_FAILED: Final = Metric(
    "memlane.backfill.failed_requests",
    "counter",
    "{request}",
    "Requests that the sidecar did not answer or refused.",
    _WRITER,
)
EMBED_QUEUE: Final = Metric(
    "memlane.embed.queue", "gauge", "{text}", "Texts that wait.", _SIDECAR, ("memlane.embed.kind",)
)
EMBED_BATCH: Final = Metric(
    "memlane.embed.batch",
    "histogram",
    "{text}",
    "Texts of one run of the model.",
    _SIDECAR,
    ("memlane.embed.kind",),
    TEXTS,
)
EMBED_DURATION: Final = Metric(
    "memlane.embed.duration",
    "histogram",
    "s",
    "Time of one run of the model.",
    _SIDECAR,
    ("memlane.embed.kind",),
    RUN_S,
)
EMBED_FAILURES: Final = Metric(
    "memlane.embed.failures",
    "counter",
    "{run}",
    "Runs of the model that failed.",
    _SIDECAR,
    ("memlane.embed.kind",),
)
EMBED_PROVIDER: Final = Metric(
    "memlane.embed.provider",
    "gauge",
    "{sidecar}",
    "1, with what the model was asked to run on and what it runs on.",
    _SIDECAR,
    (
        "memlane.embed.provider.asked",
        "memlane.embed.provider.used",
        "memlane.embed.device",
        "memlane.embed.model",
    ),
)
SPANS: Final = Metric(
    "memlane.telemetry.spans",
    "counter",
    "{span}",
    "Spans that were to leave, by what became of them: exported, failed (the collector did not"
    " take them), dropped (too many waited).",
    "reader, writer, follower",
    ("memlane.outcome",),
)
PROCESS_CPU: Final = Metric(
    "process.cpu.time", "counter", "s", "CPU time of the process.", _ANY, ("cpu.mode",)
)
PROCESS_MEMORY: Final = Metric(
    "process.memory.usage", "gauge", "By", "Memory of the process, shared pages too.", _ANY
)

METRICS: Final = tuple(each for each in list(globals().values()) if isinstance(each, Metric))
"""All of them, in the order of this file."""


def table() -> str:
    """All metrics as a Markdown table, for `docs/METRICS.md`."""
    rows = ["| metric | in Prometheus | kind | told by | attributes | what it says |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for each in METRICS:
        unit = f", {each.unit}" if each.unit else ""
        attributes = ", ".join(f"`{name}`" for name in each.attributes) or "-"
        ending = "_bucket" if each.kind == "histogram" else ""
        rows.append(
            f"| `{each.name}` | `{each.prometheus}{ending}` | {each.kind}{unit} |"
            f" {each.told_by} | {attributes} | {each.about} |"
        )
    return "\n".join(rows) + "\n"
