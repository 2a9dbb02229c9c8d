"""The backfill and live queries at one sidecar: neither starves, nothing is done twice."""

from __future__ import annotations

import signal
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

import orjson

from golden import metrics
from golden.fleet.process import wait_for
from golden.fleet.semantic import FILLED_S, fill
from golden.fleet.sidecar import SidecarNode, Tap
from golden.fleet.world import Fleet, Tenant, running
from golden.judged import JudgedSet, documents
from service.index import passages
from service.index.document import Upsert, parse_line
from service.semantic.sidecar import Sidecar, SidecarError
from service.settings import Settings

QUERIES_PER_S: Final = 5.0
ROUND_S: Final = 12.0
ROUNDS: Final = 3
RATE_S: Final = 20.0
CHUNK: Final = 32
KILLS: Final = 3

Progress = Callable[[str], None]


def run(
    judged_set: JudgedSet, model: str, *, documents_most: int, progress: Progress
) -> dict[str, Any]:
    """Measure queries beside an idle and a busy sidecar, its rate, and what kills cost.

    Returns:
        `{"model", "query_ms": {"idle", "busy": {p50, p90, p99}}, "rise", "missed", "asked",
        "passages_per_s": {"sidecar", "backfill"}, "share", "kills": {"kills", "passages", "twice",
        "in_flight_most"}}`; `rise` is the median of busy over idle p50 by round, `missed` counts
        queries that took longer than the deadline while the backfill ran.

    Raises:
        SetupError: the model is not there.
        Unavailable: a part did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="memlane-sidecar-") as folder:
        sidecar = SidecarNode(model, Path(folder))
        sidecar.start()
        try:
            with sidecar.client() as client:
                model_id = client.info().model
                texts = _passages(judged_set, client, model_id, documents_most)
                progress(f"{len(texts)} passages")
                loaded = _load(judged_set, client, model_id, texts, progress)
            rates = _rates(judged_set, sidecar, texts, documents_most, progress)
            kills = _kills(judged_set, sidecar, documents_most, progress)
        finally:
            sidecar.tree.stop()
    return {"model": model_id, **loaded, **rates, "kills": kills}


def _passages(judged_set: JudgedSet, client: Sidecar, model: str, most: int) -> list[str]:
    """What the backfill would embed of the set's first documents."""
    found: list[str] = []
    for line in documents(judged_set.corpus)[:most]:
        operation = parse_line(line, number=1, now_ms=2**41, limits=Settings())
        assert isinstance(operation, Upsert)
        text = passages.source(operation.document)[: passages.SOURCE_CHARS]
        [spans] = client.split(
            [text],
            model=model,
            tokens_most=passages.PASSAGE_TOKENS,
            passages_most=passages.PASSAGES_MOST,
        )
        found += [passage.text for passage in passages.cut(text, spans).passages]
    return found


def _load(
    judged_set: JudgedSet, client: Sidecar, model: str, texts: Sequence[str], progress: Progress
) -> dict[str, Any]:
    """Queries at a steady rate beside a sidecar that is idle, then busy, in turns."""
    questions = iter(range(1_000_000))
    stop = threading.Event()

    def steady(seconds: float) -> list[float]:
        spent = []
        began = time.monotonic()
        for number in range(int(seconds * QUERIES_PER_S)):
            time.sleep(max(0.0, began + number / QUERIES_PER_S - time.monotonic()))
            query = judged_set.queries[next(questions) % len(judged_set.queries)].text
            asked = time.perf_counter()
            client.embed_query(query, model=model)
            spent.append((time.perf_counter() - asked) * 1_000)
        return spent

    def busy() -> None:
        at = 0
        while not stop.is_set():
            chunk = [texts[(at + n) % len(texts)] for n in range(4)]
            at += len(chunk)
            try:
                client.embed(chunk, model=model)
            except SidecarError:
                return

    idle_ms: list[float] = []
    busy_ms: list[float] = []
    rises = []
    for number in range(ROUNDS):
        idle = steady(ROUND_S)
        stop.clear()
        worker = threading.Thread(target=busy)
        worker.start()
        loaded = steady(ROUND_S)
        stop.set()
        worker.join()
        rises.append(median(loaded) / median(idle))
        idle_ms += idle
        busy_ms += loaded
        progress(f"round {number + 1}: {rises[-1]:.2f} times")
    deadline_ms = Settings().semantic_deadline_ms
    return {
        "query_ms": {
            "idle": metrics.percentiles(idle_ms),
            "busy": metrics.percentiles(busy_ms),
        },
        "rise": round(median(rises), 3),
        "asked": len(busy_ms),
        "missed": sum(spent > deadline_ms for spent in busy_ms),
    }


def _rates(
    judged_set: JudgedSet,
    sidecar: SidecarNode,
    texts: Sequence[str],
    most: int,
    progress: Progress,
) -> dict[str, Any]:
    """Passages a second: the sidecar's own, and the backfill's through a whole service."""
    with sidecar.client() as client:
        model = client.info().model
        began, done = time.monotonic(), 0
        while time.monotonic() - began < RATE_S:
            chunk = [texts[(done + n) % len(texts)] for n in range(CHUNK)]
            client.embed(chunk, model=model)
            done += CHUNK
        own = done / (time.monotonic() - began)
    progress(f"the sidecar alone: {own:.1f} passages a second")
    with running("folder", environ={"MEMLANE_EMBEDDER": sidecar.address}) as fleet:
        tenant = fleet.create("rate")
        seconds = fill(fleet, tenant, judged_set, most, progress)
        found = fleet.writers[0].ready() or {}
        filled = found["backfill"]["passages"] / seconds
    return {
        "passages_per_s": {"sidecar": round(own, 1), "backfill": round(filled, 1)},
        "share": round(filled / own, 3),
    }


def _kills(
    judged_set: JudgedSet, sidecar: SidecarNode, most: int, progress: Progress
) -> dict[str, Any]:
    """Kill the writer, the sidecar, the writer, in the middle; count what was embedded twice."""
    lines = documents(judged_set.corpus)[:most]
    with (
        Tap(sidecar.address) as tap,
        running("folder", environ={"MEMLANE_EMBEDDER": tap.address}) as fleet,
    ):
        tenant = fleet.create("kills")
        fleet.write(tenant, b"\n".join(lines))
        for number in range(KILLS):
            _wait_covered(fleet, tenant, (number + 1) / (KILLS + 1))
            _kill(fleet, sidecar, writer=number % 2 == 0)
            progress(f"kill {number + 1} of {KILLS}")
        _wait_covered(fleet, tenant, 1.0)
        total = sum(tap.embedded.values())
        distinct = len(tap.embedded)
    return {
        "kills": KILLS,
        "passages": distinct,
        "twice": total - distinct - _repeated(judged_set, sidecar, most),
        "in_flight_most": KILLS * Settings().backfill_passages * Settings().backfill_requests,
    }


def _repeated(judged_set: JudgedSet, sidecar: SidecarNode, most: int) -> int:
    """Passages of different documents that say the same: these are embedded once for each."""
    with sidecar.client() as client:
        texts = _passages(judged_set, client, client.info().model, most)
    return len(texts) - len(set(texts))


def _kill(fleet: Fleet, sidecar: SidecarNode, *, writer: bool) -> None:
    if writer:
        fleet.writers[0].tree.send(signal.SIGKILL)
        fleet.writers[0].tree.start()
    else:
        sidecar.tree.send(signal.SIGKILL)
        sidecar.start()


def _wait_covered(fleet: Fleet, tenant: Tenant, share: float) -> None:
    wait_for(lambda: _coverage(fleet, tenant) >= share, FILLED_S, f"{share:.0%} of the vectors")


def _coverage(fleet: Fleet, tenant: Tenant) -> float:
    answer = fleet.http.get(f"{fleet.readers[0].url}/v1/index", headers=tenant.headers)
    if not answer.is_success:
        return 0.0
    found = orjson.loads(answer.content)
    return float(found["vectors"]["coverage"]) if found["documents"] else 0.0
