"""What can break: each fault knows how to happen, how long it lasts, and how it ends."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable

import psutil

from golden.fleet.world import Fleet, Node

Signs = Counter[str]
Undo = Callable[[], None]

SLOW_S = (0.6, 0.25)
"""A slow store: so long it stands still, so long it runs, in turns."""


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One way to break a fleet.

    Attributes:
        name: in the report.
        lasts_s: from when it is injected until it is undone.
        inject: does it, and gives what undoes it.
        impossible: why it cannot happen on this fleet; empty when it can.
    """

    name: str
    lasts_s: float
    inject: Callable[[Fleet, random.Random], Undo]
    impossible: Callable[[Fleet], str] = lambda _: ""


def _active(fleet: Fleet) -> Node:
    return fleet.active_writer() or fleet.writers[0]


def _kill_writer(fleet: Fleet, _: random.Random) -> Undo:
    victim = _active(fleet)
    victim.tree.send(signal.SIGKILL)
    return victim.tree.start


def _kill_reader(fleet: Fleet, rng: random.Random) -> Undo:
    victim = rng.choice(fleet.readers)
    victim.tree.send(signal.SIGKILL)
    return victim.tree.start


def _kill_part(role: str, *words: str) -> Callable[[Fleet, random.Random], Undo]:
    def inject(fleet: Fleet, rng: random.Random) -> Undo:
        node = _active(fleet) if role == "writer" else rng.choice(fleet.readers)
        node.tree.send(signal.SIGKILL, *words)
        return _nothing

    return inject


def _stop_part(role: str, *words: str) -> Callable[[Fleet, random.Random], Undo]:
    """SIGSTOP: it is there and does nothing."""

    def inject(fleet: Fleet, rng: random.Random) -> Undo:
        node = _active(fleet) if role == "writer" else rng.choice(fleet.readers)
        node.tree.send(signal.SIGSTOP, *words)
        return lambda: _continue(node)

    return inject


def _continue(node: Node) -> None:
    node.tree.send(signal.SIGCONT)


def _store_down(fleet: Fleet, _: random.Random) -> Undo:
    fleet.store.pause()
    return fleet.store.resume


def _store_slow(fleet: Fleet, _: random.Random) -> Undo:
    over = threading.Event()

    def stutter() -> None:
        while not over.is_set():
            fleet.store.pause()
            time.sleep(SLOW_S[0])
            fleet.store.resume()
            over.wait(SLOW_S[1])

    thread = threading.Thread(target=stutter, daemon=True)
    thread.start()

    def undo() -> None:
        over.set()
        thread.join()

    return undo


def _disk_full(fleet: Fleet, rng: random.Random) -> Undo:
    """No file of the follower's may grow beyond a page: every replica it writes fails."""
    node = rng.choice(fleet.readers)
    limited = [p for p in node.tree.processes() if "follower" in " ".join(_command(p))]
    for process in limited:
        process.rlimit(psutil.RLIMIT_FSIZE, (4_096, resource.RLIM_INFINITY))

    def undo() -> None:
        for process in limited:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.rlimit(
                    psutil.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
                )

    return undo


def _command(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.NoSuchProcess:
        return []


def _lose_objects(fleet: Fleet, rng: random.Random) -> Undo:
    """A reader's cache folder is wiped while it runs, as a replaced disk would be."""
    node = rng.choice(fleet.readers)
    for path in (node.folder / "files").glob("*.db"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    return _nothing


def _nothing() -> None:
    """It mends by itself."""


def _needs_pause(fleet: Fleet) -> str:
    return "" if fleet.store.environ else "a folder cannot be stopped; use --store s3"


FAULTS = (
    Fault("kill writer", 3.0, _kill_writer),
    Fault("kill writer's web process", 1.0, _kill_part("writer", "service.serve")),
    Fault("kill litestream", 1.0, _kill_part("writer", "litestream", "replicate")),
    Fault("stop litestream", 12.0, _stop_part("writer", "litestream", "replicate")),
    # Two writers claim the shard when the stopped one goes on.
    Fault("stop the whole writer", 12.0, _stop_part("writer")),
    Fault("kill reader", 2.0, _kill_reader),
    Fault("kill follower", 1.0, _kill_part("reader", "service.roles.follower")),
    Fault("stop follower", 12.0, _stop_part("reader", "service.roles.follower")),
    Fault("store down 30 s", 30.0, _store_down, _needs_pause),
    Fault("store slow", 10.0, _store_slow, _needs_pause),
    Fault("reader's disk full", 8.0, _disk_full),
    Fault("reader's files gone", 1.0, _lose_objects),
)
"""Not among them: a step of the wall clock, which needs the machine's own; ages are computed from
the monotonic clock alone, and a unit test moves the wall clock under them."""
