"""A fleet under load while things break, on a seed; every answer is checked."""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from golden.fleet import objects
from golden.fleet.faults import FAULTS, Fault, Signs
from golden.fleet.load import Load
from golden.fleet.process import wait_for
from golden.fleet.world import Fleet, running

WRITERS, READERS, TENANTS = 2, 2, 12
CALM_S = (4.0, 10.0)
"""Between two faults."""
WATCH_S = 0.25
RECOVERY_S = 120.0
LEASE_MS = 4_000
BACKOFF_MS = 500
SLOW_PUT_MS = 300

Progress = Callable[[str], None]


def run(
    *, minutes: float, seed: int, kind: objects.Kind, log: Path, progress: Progress
) -> dict[str, Any]:
    """Drive a fleet, break it in one way after another, let it recover, and count what was lost.

    Args:
        minutes: how long faults go on.
        seed: the order of the faults, their targets and pauses.
        kind: the object store.
        log: where each event is written, one line each.
        progress: told each event.

    Returns:
        `{"seed", "minutes", "acknowledged", "answers", "lost_durable", "lost_bounded", "torn",
        "foreign", "stale_silent", "recovered", "faults": {NAME: {"count", "seen", "signs"}},
        "skipped": {NAME: reason}}`. `lost_durable` counts documents of which no acknowledged
        writing with `durability=replicated`, nor a later one, is there at the end; `lost_bounded`
        the same without it. `stale_silent` counts answers that said to be younger than a durable
        write which they lack.

    Raises:
        SetupError: no S3 server is installed.
        Unavailable: the fleet did not come up.
    """
    rng = random.Random(seed)  # noqa: S311  (chance, not secrets)
    diary = _Diary(log, progress)
    environ = {
        "MEMLANE_LEASE_MS": str(LEASE_MS),
        "MEMLANE_CHILD_BACKOFF_MS": str(BACKOFF_MS),
        "MEMLANE_LITESTREAM_SILENCE_MS": "5000",
    }
    with running(kind, writers=WRITERS, readers=READERS, environ=environ) as fleet:
        tenants = fleet.create_many([f"chaos{n}" for n in range(TENANTS)])
        load = Load(fleet, tenants, seed, diary.note)
        load.start()
        wait_for(lambda: load.acknowledged > TENANTS, RECOVERY_S, "the first writes")
        seen = _break(fleet, load, rng, minutes * 60, diary)
        recovered = _recover(fleet, diary)
        load.stop()
        report = load.audit()
    return {
        "seed": seed,
        "minutes": minutes,
        "store": kind,
        **report,
        "recovered": recovered,
        "faults": {name: dataclasses.asdict(each) for name, each in seen.faults.items()},
        "skipped": seen.skipped,
    }


@dataclasses.dataclass(slots=True)
class _OneFault:
    """How often it was injected, how often somebody could see it, and by what."""

    count: int = 0
    seen: int = 0
    signs: dict[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class _Broken:
    faults: dict[str, _OneFault]
    skipped: dict[str, str]


class _Diary:
    """One line an event, in a file and to whoever watches."""

    def __init__(self, path: Path, progress: Progress) -> None:
        self._began = time.monotonic()
        self._progress = progress
        self._file = path.open("w")

    def note(self, text: str) -> None:
        """Write down an event."""
        line = f"{time.monotonic() - self._began:7.1f} s  {text}"
        self._file.write(line + "\n")
        self._file.flush()
        self._progress(line)


def _break(fleet: Fleet, load: Load, rng: random.Random, seconds: float, diary: _Diary) -> _Broken:
    """Every fault once in a shuffled order, again and again until the time is over."""
    broken = _Broken({}, {})
    deadline = time.monotonic() + seconds
    order: list[Fault] = []
    while time.monotonic() < deadline:
        if not order:
            order = [each for each in FAULTS if each.name not in broken.skipped]
            rng.shuffle(order)
        fault = order.pop()
        time.sleep(rng.uniform(*CALM_S))
        why_not = fault.impossible(fleet)
        if why_not:
            broken.skipped[fault.name] = why_not
            diary.note(f"{fault.name} skipped: {why_not}")
            continue
        one = broken.faults.setdefault(fault.name, _OneFault())
        with Watch(fleet, load) as watch:
            diary.note(f"{fault.name} ...")
            undo = fault.inject(fleet, rng)
            time.sleep(fault.lasts_s)
            undo()
            watch.until_calm(RECOVERY_S)
        one.count += 1
        one.seen += bool(watch.signs)
        one.signs = dict(Counter(one.signs) + Counter(watch.signs))
        diary.note(f"{fault.name} over; seen by {dict(watch.signs) or 'nobody'}")
    return broken


def _recover(fleet: Fleet, diary: _Diary) -> bool:
    """Start what is dead, and wait until everything is ready again."""
    for node in (*fleet.writers, *fleet.readers):
        if not node.tree.running:
            node.tree.start()
    deadline = time.monotonic() + RECOVERY_S
    while time.monotonic() < deadline:
        readers = all((node.ready() or {}).get("ready") for node in fleet.readers)
        if readers and fleet.active_writer() is not None:
            diary.note("everything is ready again")
            return True
        time.sleep(WATCH_S)
    diary.note("not everything came back")
    return False


class Watch:
    """Looks at every node while a fault lasts: who says that something is wrong?"""

    def __init__(self, fleet: Fleet, load: Load) -> None:
        self.signs: Signs = Counter()
        self._fleet = fleet
        self._load = load
        self._uptimes_ms: dict[str, int] = {}
        self._puts_ms: dict[str, int] = {}
        self._over = threading.Event()
        self._calm = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._refused = self._load.refused
        self._before = self._counters()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        for name, count in self._counters().items():
            if count > self._before.get(name, 0):
                self.signs[f"counter {name}"] += count - self._before.get(name, 0)
        if self._load.refused > self._refused:
            self.signs["writes refused"] += self._load.refused - self._refused

    def until_calm(self, seconds: float) -> None:
        """Wait until every node that runs is ready, or for so long."""
        self._calm.clear()
        self._calm.wait(seconds)

    def _look(self) -> None:
        while not self._over.wait(WATCH_S):
            calm = True
            active = False
            for node in (*self._fleet.writers, *self._fleet.readers):
                told = node.ready()
                role = node.tree.name.split("-")[0]
                if told is None:
                    self.signs[f"{role} does not answer"] += 1
                    calm = calm and not node.tree.running
                elif told.get("ready"):
                    active = active or role == "writer"
                elif not _stands_by(told):
                    self.signs[f"{role} is not ready"] += 1
                    calm = False
                self._compare(node.tree.name, told or {})
                if told is not None and told.get("follower", told) is None:
                    self.signs["follower does not answer"] += 1
                    calm = False
            if not active:
                self.signs["no writer is ready"] += 1
            if calm and active:
                self._calm.set()

    def _compare(self, name: str, told: dict[str, Any]) -> None:
        """Signs that are no counters: a follower younger than it was, a store that got slower."""
        uptime_ms = (told.get("follower") or {}).get("uptime_ms")
        if uptime_ms is not None:
            if uptime_ms < self._uptimes_ms.get(name, 0):
                self.signs["follower was restarted"] += 1
            self._uptimes_ms[name] = uptime_ms
        put_ms = told.get("put_ms")
        if put_ms is not None:
            first = self._puts_ms.setdefault(name, put_ms)
            if put_ms > max(2 * first, SLOW_PUT_MS):
                self.signs["slow writes to the store"] += 1

    def _counters(self) -> dict[str, int]:
        """Counters of the nodes that answer, summed by name."""
        total: Counter[str] = Counter()
        for node in (*self._fleet.writers, *self._fleet.readers):
            try:
                told = node.ready() or {}
            except httpx.HTTPError:
                continue
            for part in ("follower", "lease", "publisher"):
                counters = told.get(part) or {}
                total.update({k: v for k, v in counters.items() if isinstance(v, int)})
        return {name: count for name, count in total.items() if _tells(name)}


_TELLING = (
    "failed",
    "lost",
    "fenced",
    "takeover",
    "reseed",
    "quarantine",
    "silent",
    "frozen",
    "damaged",
    "restart",
    "killed",
    "old_heads",
    "lock_timeouts",
    "evict",
)


def _stands_by(told: dict[str, Any]) -> bool:
    """A second writer that waits for the shard is as it should be."""
    return any(str(reason).startswith("standby") for reason in told.get("reasons", ()))


def _tells(name: str) -> bool:
    """Counters that grow when something is wrong, not when work is done."""
    return any(word in name for word in _TELLING)
