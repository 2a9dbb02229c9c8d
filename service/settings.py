"""Every limit and interval of the service: a name, a default, a unit, and why.

One frozen object, `Settings`, is built at start-up from the environment (`MEMLANE_<NAME>`) and
handed down. Units stand last in names. `docs/SETTINGS.md` is generated from this file and a test
keeps the two equal.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from typing import Any

from service.errors import InvalidSetting

KIB = 1024
MIB = 1024 * KIB


def _setting(default: int, doc: str, *, least: int = 1) -> Any:
    return dataclasses.field(default=default, metadata={"doc": doc, "least": least})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The service's limits. Every field is an int; its unit is the last word of its name."""

    # --- what a request may carry
    request_bytes: int = _setting(
        64 * MIB, "largest body of `documents:batch`; other calls take `small_request_bytes`"
    )
    small_request_bytes: int = _setting(
        64 * KIB, "largest body of every call but `documents:batch`"
    )
    request_ms: int = _setting(60_000, "longest a request's body may take to arrive")
    line_bytes: int = _setting(
        2 * MIB, "longest NDJSON line of a batch; longer lines are refused by number"
    )
    batch_lines: int = _setting(5_000, "most lines in one batch")
    ref_bytes: int = _setting(512, "longest ref, in UTF-8")
    kind_bytes: int = _setting(64, "longest kind, in UTF-8")
    title_bytes: int = _setting(4 * KIB, "longest title, in UTF-8")
    meta_bytes: int = _setting(64 * KIB, "longest meta, in UTF-8")
    identifiers_count: int = _setting(256, "most identifiers on one document")
    identifier_bytes: int = _setting(256, "longest identifier, in UTF-8")
    future_ms: int = _setting(86_400_000, "how far in the future `updated_at` may lie (clock skew)")
    query_chars: int = _setting(4_096, "longest query text")
    query_terms: int = _setting(
        256, "most terms of a query that are looked up; the rest is reported as dropped"
    )
    hits_count: int = _setting(100, "most hits on one page")
    page_depth_hits: int = _setting(1_000, "deepest hit that a cursor reaches")
    get_refs: int = _setting(100, "most documents in one `documents:get`")
    get_bytes: int = _setting(
        1 * MIB, "largest `documents:get` answer; what does not fit is cut and said to be"
    )
    timeline_rows: int = _setting(50, "most documents of a timeline on each side")
    mcp_tokens: int = _setting(
        4_000, "tokens of one answer over MCP, unless the call asks for fewer or more", least=400
    )
    mcp_tokens_most: int = _setting(
        20_000,
        "most tokens that a call over MCP may ask for; clients refuse longer ones",
        least=400,
    )
    prefetch_ms: int = _setting(300, "budget of a prefetch that names none")
    prefetch_ms_most: int = _setting(2_000, "longest budget of a prefetch")
    prefetch_reserve_ms: int = _setting(
        25, "kept back from a prefetch's budget for writing the answer, and for a late wake-up"
    )
    prefetch_tail_ms: int = _setting(
        40, "kept back from the wait for a prefetch's vector, to rank and to cut snippets"
    )
    manifest_rows: int = _setting(
        50_000, "most documents in one answer of `manifest/{bucket}`; about 80 bytes each"
    )
    search_deadline_ms: int = _setting(5_000, "longest a search may wait for `min_version` and run")

    page_session_ms: int = _setting(
        7 * 86_400_000, "how long the search page remembers a key; a revoked one ends at once"
    )

    # --- what a tenant may hold
    tenant_documents: int = _setting(2_000_000, "most documents of one tenant")
    tenant_bytes: int = _setting(8 * 1024 * MIB, "largest tenant file")
    idempotency_keys: int = _setting(1_000, "answers remembered for `Idempotency-Key`, per tenant")

    # --- what a process may hold
    connections_per_tenant: int = _setting(
        8, "idle read connections kept for one tenant in one worker"
    )
    open_tenants: int = _setting(
        256, "tenants with open connections in one worker; least recently used closes first"
    )
    search_threads: int = _setting(4, "searches running at once in one worker")
    search_queue: int = _setting(256, "searches waiting in one worker before it answers 503")
    prefetch_threads: int = _setting(
        2, "prefetches running at once in one worker, beside its searches: these may take longer"
    )
    prefetch_queue: int = _setting(64, "prefetches waiting in one worker before it answers empty")
    waiting_threads: int = _setting(
        32, "searches waiting for a replica to catch up or arrive, in one worker"
    )
    batches_running: int = _setting(
        4, "batches read or applied at once in one worker; each may hold `request_bytes`"
    )
    batch_queue: int = _setting(16, "batches waiting in one worker before it answers 503")
    reader_workers: int = _setting(2, "gunicorn workers of a reader")
    sqlite_cache_kib: int = _setting(16 * KIB, "page cache of one read connection")
    sqlite_writer_cache_kib: int = _setting(
        8 * KIB, "page cache of a tenant's writing connection; emptied after a large batch"
    )
    sqlite_mmap_mib: int = _setting(
        2_047,
        "how much of a file one read connection maps into memory, which all share; SQLite takes no more than 2,047",
        least=0,
    )

    # --- replication
    store_timeout_ms: int = _setting(10_000, "longest one request to an S3 object store may take")
    store_retries: int = _setting(
        3, "repeats of a request to an S3 object store that failed and is safe to repeat", least=0
    )
    sync_interval_ms: int = _setting(
        2_000,
        "how often Litestream looks at every file by itself, changed or not; what changed is uploaded at once",
    )
    heads_interval_ms: int = _setting(
        250, "how often the writer publishes heads when something changed"
    )
    heads_heartbeat_ms: int = _setting(
        2_000, "how often the writer publishes heads when nothing changed"
    )
    poll_interval_ms: int = _setting(250, "how often a reader looks at the heads")
    staleness_ms: int = _setting(
        10_000, "age past which a reader's `readyz` fails and the writer refuses batches"
    )
    replicate_ms: int = _setting(
        10_000, "longest a batch with `durability=replicated` waits for the object store"
    )
    drain_ms: int = _setting(
        15_000, "longest a role may take to finish what it holds when asked to stop"
    )
    lease_ms: int = _setting(
        10_000,
        "how long a writer owns its shard beyond a renewal of its lease; a third of it passes"
        " between renewals, and a crashed owner is replaced after it",
        least=500,
    )
    litestream_silence_ms: int = _setting(
        10_000, "silence after which a Litestream that runs and does not answer is killed"
    )
    old_epochs_ms: int = _setting(
        86_400_000,
        "how long objects of older epochs stay once a newer one is announced (slow readers,"
        " restore to a time); longer than Litestream's 30 m for level 0",
    )
    erase_ms: int = _setting(
        60_000, "longest one attempt to erase a deleted tenant; it is tried again after that"
    )
    erase_wait_ms: int = _setting(
        20_000, "longest a deletion's call waits for its receipt before it answers 202", least=0
    )
    erase_settle_ms: int = _setting(
        1_000, "between two listings of a deleted tenant's objects: uploads under way end in it"
    )
    admin_running: int = _setting(8, "deletions and restores waited for at once in the writer")
    admin_queue: int = _setting(64, "deletions and restores waiting before it answers 503")
    exports_running: int = _setting(2, "exports copied or sent at once in one worker")
    export_queue: int = _setting(8, "exports waiting in one worker before it answers 503")
    export_ms: int = _setting(600_000, "longest an export may take to be copied and sent")
    export_free_bytes: int = _setting(
        256 * MIB, "free space that must be left on the disk beside an export's copy", least=0
    )
    child_backoff_ms: int = _setting(
        15_000, "longest wait before a crashed child process is started again"
    )
    activate_ms: int = _setting(
        4_000, "longest a query waits for a tenant this reader does not hold yet"
    )
    resident_tenants: int = _setting(
        2_000, "most tenants a reader keeps on its disk; least recently used goes first"
    )
    resident_bytes: int = _setting(
        64 * 1024 * MIB, "most bytes of tenants a reader keeps on its disk"
    )
    cache_free_bytes: int = _setting(
        64 * MIB, "free space a reader keeps on its cache's disk, by evicting", least=0
    )
    pinned_bytes: int = _setting(
        8 * 1024 * MIB, "most bytes of tenants that `index:warm` keeps from eviction", least=0
    )
    pin_ms: int = _setting(3_600_000, "longest one `index:warm` keeps a tenant from eviction")
    warm_tenants: int = _setting(100, "most tenants in one `index:warm` of an operator")
    open_connections: int = _setting(
        512, "idle read connections kept for all tenants in one worker; one descriptor each"
    )
    polls_per_s: int = _setting(
        50, "most looks at heads and listings of shards a reader makes in a second"
    )
    idle_poll_ms: int = _setting(
        2_000, "longest between two looks at the heads of a shard that nobody asks about"
    )
    shards_interval_ms: int = _setting(2_000, "how often a reader lists the shards there are")
    shard_gone_ms: int = _setting(
        30_000, "how long a shard must be missing before a reader drops its tenants"
    )
    hot_ms: int = _setting(
        60_000, "a tenant queried within this time is brought up at every look; others lazily"
    )
    idle_catch_up_ms: int = _setting(
        60_000, "longest a resident tenant that nobody asks about stays behind"
    )
    frozen_ms: int = _setting(
        15_000, "how long a tenant's catching up may fail before its replica is made anew"
    )
    check_inline_bytes: int = _setting(
        8 * MIB, "largest file that gets its full check before its first answer; others after it"
    )
    quarantine_files: int = _setting(
        16, "most damaged files a reader keeps for inspection", least=0
    )
    quarantine_bytes: int = _setting(
        1024 * MIB, "most bytes of damaged files a reader keeps for inspection", least=0
    )
    canary_interval_ms: int = _setting(5_000, "how often a writer bumps its shard's canary")
    canary_ms: int = _setting(
        15_000, "age of the last canary past which a reader calls its shard late"
    )

    # --- the semantic lane
    semantic_deadline_ms: int = _setting(
        150, "longest a search waits for its query's vector; a request may ask for less"
    )
    semantic_late_ms: int = _setting(
        2_000, "how long after that an answer is still taken, for the next one who asks the same"
    )
    semantic_failures: int = _setting(
        3, "calls in a row without an answer in time after which the sidecar is left alone"
    )
    semantic_pause_ms: int = _setting(
        1_000, "between two tries of a sidecar that is left alone; one query waits for each"
    )
    semantic_vectors: int = _setting(
        4_096, "vectors of queries kept in one worker, about 0.5 KB each"
    )
    backfill_documents: int = _setting(
        16, "documents that the backfill reads, and has cut into passages, at once"
    )
    backfill_passages: int = _setting(
        32, "most passages in one request of the backfill; fewer where they take long"
    )
    backfill_requests: int = _setting(
        3, "requests of the backfill under way at once: one more than a small sidecar has cores"
    )
    backfill_request_ms: int = _setting(
        50, "how long one request of the backfill should take: what a kill costs at most"
    )
    backfill_call_ms: int = _setting(
        30_000, "longest one request of the backfill may take; the sidecar is given up for a while"
    )
    backfill_rest_percent: int = _setting(
        0, "rest of the backfill after each request, in percent of what it took", least=0
    )
    backfill_sweep_ms: int = _setting(
        60_000, "how often the backfill looks at every file, changed or not"
    )
    backfill_attempts: int = _setting(
        3, "failures of one document's passage before the document is given up"
    )

    # --- what is told of searches
    trace_percent: int = _setting(
        100,
        "share of the traces that are sent to the collector; those of searches that were slow,"
        " failed, or went without vectors against anybody's wish are sent in any case",
        least=0,
    )
    trace_slow_ms: int = _setting(250, "a request that takes this long is slow")
    trace_spans: int = _setting(
        2_048, "spans waiting in one process for the collector; more are dropped and counted"
    )

    operator_session_ms: int = _setting(
        12 * 3_600_000, "how long the operator's page remembers a key; a revoked one ends at once"
    )
    figures_flush_ms: int = _setting(
        1_000, "how often a worker writes its figures; a killed one loses so much"
    )
    figures_waiting: int = _setting(
        20_000, "searches whose figures wait to be written; those of more are lost and counted"
    )
    figures_minutes: int = _setting(1_440, "how long a node keeps its own figures")
    figures_bytes: int = _setting(
        256 * MIB, "largest file of figures; the oldest go first", least=1 * MIB
    )
    figures_tenants: int = _setting(
        5_000, "tenants with figures of their own; those of more are summed as one"
    )
    stories_count: int = _setting(2_000, "ordinary searches whose stories a node keeps")
    stories_notable_count: int = _setting(
        5_000, "slow or degraded searches whose stories a node keeps"
    )
    stories_flush_count: int = _setting(
        50, "stories of each of the two kinds that a worker keeps at one flush: the last ones"
    )

    # --- a tenant's machine that syncs
    sync_batch_lines: int = _setting(1_000, "most documents that a sync sends at once")
    sync_batch_bytes: int = _setting(4 * MIB, "most bytes that a sync sends at once")
    sync_line_bytes: int = _setting(
        2 * MIB, "largest document a sync sends, as a line; below the service's `line_bytes`"
    )
    sync_note_bytes: int = _setting(
        512 * KIB, "largest part of a transcript that is one document; longer ones become several"
    )
    sync_file_bytes: int = _setting(
        1024 * MIB, "largest file of a source that is read; others are reported and skipped"
    )
    sync_files: int = _setting(200_000, "most files of one source")
    sync_shrink_percent: int = _setting(
        90,
        "a source that lost more than this share of its documents since the last sync asks first",
    )
    sync_poll_ms: int = _setting(5_000, "how often `sync --watch` looks at its sources")
    sync_refresh_ms: int = _setting(
        300_000, "how often `sync --watch` compares with the service when nothing changed here"
    )
    sync_busy_ms: int = _setting(
        5_000, "longest a sync waits for a source's database that another process has locked"
    )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> Settings:
        """Read `MEMLANE_<FIELD>` for every field.

        Raises:
            InvalidSetting: a value is not an integer or is below the least allowed.
        """
        environ = os.environ if environ is None else environ
        values: dict[str, int] = {}
        for field in dataclasses.fields(cls):
            name = f"MEMLANE_{field.name.upper()}"
            if (raw := environ.get(name)) is None:
                continue
            least = field.metadata["least"]
            try:
                value = int(raw)
            except ValueError:
                raise InvalidSetting(f"{name}={raw!r} is not a whole number") from None
            if value < least:
                raise InvalidSetting(f"{name}={value} is below the least allowed, {least}")
            values[field.name] = value
        return cls(**values)


def table() -> str:
    """All settings as a Markdown table, for `docs/SETTINGS.md`."""
    rows = ["| environment variable | default | what it bounds |", "| --- | ---: | --- |"]
    rows += [
        f"| `MEMLANE_{field.name.upper()}` | {field.default} | {field.metadata['doc']} |"
        for field in dataclasses.fields(Settings)
    ]
    return "\n".join(rows) + "\n"
