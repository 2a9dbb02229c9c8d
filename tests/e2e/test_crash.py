"""kill -9 at random points during a push: nothing acknowledged is lost, nobody diverges."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import apsw
import httpx
import pytest

from service.replica import ReplicaCache, current_path
from tests.e2e.service import Service, wait_for

T = TypeVar("T")
VICTIMS = ("writer", "litestream", "reader", "follower", "everything")


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path, MEMLANE_CHILD_BACKOFF_MS="300")
    yield running
    running.stop()


class Push(threading.Thread):
    """Pushes small batches until told to stop; knows which were acknowledged."""

    def __init__(self, service: Service, start: int) -> None:
        super().__init__(daemon=True)
        self._service = service
        self._next = start
        self.acknowledged: dict[str, str] = {}
        self.attempted: dict[str, str] = {}
        self.version = 0
        self.enough = threading.Event()

    @property
    def reached(self) -> int:
        return self._next

    def run(self) -> None:
        headers = {"authorization": f"Bearer {self._service.told['key']}"}
        url = f"{self._service.writer}/v1/documents:batch"
        while not self.enough.is_set():
            number = self._next
            batch = {f"doc-{number}-{n}": f"text {number} {n} 重试" * 5 for n in range(40)}
            batch[f"doc-{number % 7}-0"] = f"updated by {number}"
            self.attempted = batch
            lines = [
                json.dumps({"kind": "note", "ref": ref, "note": note, "updated_at": number})
                for ref, note in batch.items()
            ]
            try:
                answer = httpx.post(url, content="\n".join(lines), headers=headers, timeout=20)
            except httpx.TransportError:
                self.enough.wait(0.05)
                continue
            if answer.status_code == 200:
                self.acknowledged |= batch
                self.version = answer.json()["version"]
                self._next += 1


def kill(service: Service, victim: str) -> None:
    pids = {
        "writer": lambda: service.children("roles.writer:create_app"),
        "litestream": lambda: service.children("litestream", "replicate"),
        "reader": lambda: service.children("roles.reader:create_app"),
        "follower": lambda: service.children("service.roles.follower"),
        "everything": lambda: [*service.children(""), service.process.pid],
    }[victim]()
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def up_again(call: Callable[..., T], *args: Any, **fields: Any) -> T | None:
    """What a call gives, or None while the service is coming back."""
    try:
        return call(*args, **fields)
    except (httpx.TransportError, AssertionError):
        return None


def contents(path: Path, *, check: bool) -> tuple[int, dict[str, str], str]:
    """Version, notes by ref, and a digest of all documents of a file."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        with db:
            version = db.execute("SELECT value FROM meta WHERE key = 'version'").get
            rows: list[Any] = db.execute(
                "SELECT ref, note, content_hash FROM doc ORDER BY kind, ref"
            ).fetchall()
            count = db.execute("SELECT count(*) FROM doc_sheet").get
            docs = db.execute("SELECT value FROM meta WHERE key = 'docs'").get
            assert count == docs == len(rows)
            if check:
                assert db.pragma("integrity_check") == "ok"
    finally:
        db.close()
    digest = hashlib.sha256(repr(rows).encode()).hexdigest()
    return version, {ref: note for ref, note, _ in rows}, digest


def check_fts(path: Path, folder: Path) -> None:
    """FTS5's own check writes, so it runs on a copy."""
    copy = folder / "copy.db"
    copy.unlink(missing_ok=True)
    source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    target = apsw.Connection(str(copy))
    with target.backup("main", source, "main") as backup:
        while not backup.done:
            backup.step(1000)
    target.execute("INSERT INTO doc_fts(doc_fts) VALUES ('integrity-check')")
    target.close()
    source.close()


def tenant_file(service: Service) -> str:
    registry = (service.data / "writer" / "registry").read_text().strip()
    path = current_path(service.data, registry)
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    file = db.execute("SELECT file FROM tenants WHERE name = 'demo'").get
    db.close()
    assert isinstance(file, str)
    return file


def crash_and_compare(service: Service, folder: Path, *, kills: int, seed: int) -> None:
    chance = random.Random(seed)
    known: dict[str, str] = {}
    number = 0
    file = tenant_file(service)
    for turn in range(kills):
        victim = VICTIMS[turn % len(VICTIMS)]
        push = Push(service, number)
        push.start()
        try:
            push.enough.wait(chance.uniform(0.2, 1.2))
            kill(service, victim)
            push.enough.wait(chance.uniform(0.0, 0.5))
        finally:
            push.enough.set()
        push.join()
        if victim == "everything":
            service.process.wait()
            service.start()
        number = push.reached
        known |= push.acknowledged
        line = {"kind": "note", "ref": "turn", "note": str(turn)}
        version = wait_for(partial(up_again, service.write, line), what=f"writes after {victim}")
        known["turn"] = str(turn)
        wait_for(
            partial(up_again, service.refs, "turn", min_version=version),
            what=f"the reader to reach {version} after {victim}",
        )
        owned = current_path(service.data, file)
        there, notes, digest = contents(owned, check=True)
        # A batch whose answer was lost may stand or not, but whole.
        lost = [
            ref
            for ref, note in known.items()
            if notes.get(ref) not in (note, push.attempted.get(ref, note))
        ]
        assert lost == [], f"{victim}, turn {turn}"
        view = wait_for(lambda: ReplicaCache(service.data / "reader").view(file))
        assert contents(view.path, check=True) == (there, notes, digest)
        check_fts(view.path, folder)


def test_five_kills_lose_nothing(alone: Service, tmp_path: Path) -> None:
    crash_and_compare(alone, tmp_path, kills=5, seed=1)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_fifty_kills_lose_nothing(alone: Service, tmp_path: Path) -> None:
    crash_and_compare(alone, tmp_path, kills=50, seed=2)
