"""The semantic lane from end to end: filled, asked, its sidecar killed, paused, brought back."""

from __future__ import annotations

import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any, Final

from golden import metrics
from golden.fleet.process import wait_for
from golden.fleet.sidecar import SidecarNode
from golden.fleet.world import OK, Fleet, Tenant, running
from golden.judged import JudgedSet, documents
from service.errors import Unavailable
from service.settings import Settings

BATCH: Final = 200
FILLED_S: Final = 3_600.0
ASKED: Final = 200
HURT: Final = 120
BACK_S: Final = 60.0

Progress = Callable[[str], None]


def run(
    judged_set: JudgedSet, model: str, *, documents_most: int, progress: Progress
) -> dict[str, Any]:
    """Fill a tenant, wait for its vectors, ask; then hurt the sidecar in two ways.

    Returns:
        `{"model", "documents", "backfill_s", "coverage", "states": {HEADER: n}, "killed", "paused":
        {"headers": [[HEADER, n], ..] in the order seen, "order_unchanged", "added_ms": {p50, p90,
        p99}, "back_s"}, "deadline_ms"}`.

    Raises:
        SetupError: the model is not there.
        Unavailable: a part did not come up.
    """
    with tempfile.TemporaryDirectory(prefix="memlane-sidecar-") as folder:
        sidecar = SidecarNode(model, Path(folder))
        sidecar.start()
        try:
            environ = {"MEMLANE_EMBEDDER": sidecar.address, "MEMLANE_READER_WORKERS": "1"}
            with running("folder", environ=environ) as fleet:
                asked = _Asked(fleet, judged_set)
                seconds = fill(fleet, asked.tenant, judged_set, documents_most, progress)
                return {
                    "model": _vectors(fleet, asked.tenant)["model"],
                    "documents": documents_most,
                    "backfill_s": round(seconds, 1),
                    "coverage": _vectors(fleet, asked.tenant)["coverage"],
                    "states": dict(Counter(asked.ask(q)[0] for q in asked.some(ASKED))),
                    "deadline_ms": Settings().semantic_deadline_ms,
                    "killed": _hurt(asked, sidecar, "killed", progress),
                    "paused": _hurt(asked, sidecar, "paused", progress),
                }
        finally:
            sidecar.tree.stop()


def fill(
    fleet: Fleet, tenant: Tenant, judged_set: JudgedSet, most: int, progress: Progress
) -> float:
    """Write a set's first documents and wait until all have vectors; seconds after the last batch.

    Raises:
        Unavailable: they did not get them in time.
    """
    lines = documents(judged_set.corpus)[:most]
    for at in range(0, len(lines), BATCH):
        fleet.write(tenant, b"\n".join(lines[at : at + BATCH]))
    began = time.monotonic()
    progress(f"{len(lines)} documents written")
    wait_for(lambda: _is_filled(fleet, tenant, len(lines)), FILLED_S, "the vectors")
    progress(f"all have vectors after {time.monotonic() - began:.0f} s")
    return time.monotonic() - began


class _Asked:
    """A tenant of the fleet and the questions of a set, each asked once before any is repeated."""

    def __init__(self, fleet: Fleet, judged_set: JudgedSet) -> None:
        self.fleet = fleet
        self.tenant = fleet.create("semantic")
        self._url = f"{fleet.readers[0].url}/v1/search"
        self._questions = cycle([query.text for query in judged_set.queries])
        wait_for(lambda: self._post("anything", None).status_code == OK, 60, "the key")

    def some(self, count: int) -> list[str]:
        return [next(self._questions) for _ in range(count)]

    def ask(self, q: str, deadline_ms: int | None = None) -> tuple[str, list[str], float]:
        """The semantic header, the order of the answer, and milliseconds."""
        began = time.perf_counter()
        answer = self._post(q, deadline_ms)
        took_ms = (time.perf_counter() - began) * 1_000
        if answer.status_code != OK:
            raise Unavailable(f"the reader answered {answer.status_code}: {answer.text[:200]}")
        return (
            answer.headers["memlane-semantic"],
            [f"{hit['kind']}:{hit['ref']}" for hit in answer.json()["hits"]],
            took_ms,
        )

    def _post(self, q: str, deadline_ms: int | None) -> Any:
        body: dict[str, Any] = {"q": q}
        if deadline_ms is not None:
            body["semantic"] = {"deadline_ms": deadline_ms}
        return self.fleet.http.post(self._url, json=body, headers=self.tenant.headers)


def _hurt(asked: _Asked, sidecar: SidecarNode, how: str, progress: Progress) -> dict[str, Any]:
    """Hurt the sidecar, ask, heal it, and see how long the lane takes to come back."""
    questions = _embedded_ones(asked, HURT)
    plain = [asked.ask(q, 0) for q in questions]
    sidecar.tree.send(signal.SIGKILL if how == "killed" else signal.SIGSTOP)
    hurt = [asked.ask(q) for q in questions]
    if how == "killed":
        sidecar.start()
    else:
        sidecar.tree.send(signal.SIGCONT)
    back_s = _back(asked)
    progress(f"{how}: back after {back_s:.2f} s")
    added = [max(0.0, bad[2] - good[2]) for bad, good in zip(hurt, plain, strict=True)]
    return {
        "headers": list(_runs([header for header, _, _ in hurt])),
        "order_unchanged": [refs for _, refs, _ in hurt] == [refs for _, refs, _ in plain],
        "added_ms": metrics.percentiles(added),
        "back_s": round(back_s, 2),
    }


def _embedded_ones(asked: _Asked, count: int) -> list[str]:
    """Questions for which the sidecar is needed and which no cache knows yet."""
    found: list[str] = []
    tried = 0
    while len(found) < count and tried < 20 * count:
        (question,) = asked.some(1)
        question = f"{question} {tried}"  # not asked before
        tried += 1
        if asked.ask(question, 0)[1] and len(question.split()) > 2:
            found.append(question)
    if len(found) < count:
        raise Unavailable(f"only {len(found)} of {count} questions find anything")
    return found


def _back(asked: _Asked) -> float:
    """Seconds until a question is answered with vectors again."""
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < BACK_S:
        number += 1
        (question,) = asked.some(1)
        if asked.ask(f"{question} again {began} {number}")[0] == "ok":
            return time.monotonic() - began
        time.sleep(0.05)
    raise Unavailable(f"no `ok` within {BACK_S:.0f} s of the sidecar's return")


def _runs(headers: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Equal neighbours as one, with their number."""
    current, count = "", 0
    for header in headers:
        if header != current and count:
            yield current, count
            count = 0
        current = header
        count += 1
    if count:
        yield current, count


def _is_filled(fleet: Fleet, tenant: Tenant, count: int) -> bool:
    try:
        found = _status(fleet, tenant)
    except Unavailable:  # its key has not arrived there yet
        return False
    return bool(found["documents"] == count and found["vectors"]["coverage"] == 1.0)


def _vectors(fleet: Fleet, tenant: Tenant) -> dict[str, Any]:
    found: dict[str, Any] = _status(fleet, tenant)["vectors"]
    return found


def _status(fleet: Fleet, tenant: Tenant) -> dict[str, Any]:
    url = f"{fleet.readers[0].url}/v1/index"
    answer = fleet.http.get(url, headers=tenant.headers)
    if answer.status_code != OK:
        raise Unavailable(f"the reader answered {answer.status_code}: {answer.text[:200]}")
    found: dict[str, Any] = answer.json()
    return found
