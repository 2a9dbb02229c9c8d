"""Two writers, one store, one shard: whatever is acknowledged as replicated stays, whoever owns."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.replica import FolderStore
from service.replica.store import Stored
from tests.e2e.service import descendants, free_ports, wait_for

LEASE_MS = 1_500


class Command:
    """`memlane writer` or `memlane reader` on a data folder of its own."""

    def __init__(self, role: str, folder: Path, *, secret_of: Path | None = None) -> None:
        self.data = folder
        self.port = free_ports()
        self.url = f"http://127.0.0.1:{self.port}"
        self._role = role
        folder.mkdir()
        if secret_of is not None:
            for name in ("secret", "operator.key"):
                shutil.copy(secret_of / name, folder / name)
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "service", self._role, "--data", str(self.data)),
                *("--store", str(self.data.parent / "store"), "--port", str(self.port)),
            ],
            stderr=(self.data / "err").open("ab"),
            env=os.environ | {"MEMLANE_LEASE_MS": str(LEASE_MS), "MEMLANE_HEADS_INTERVAL_MS": "50"},
        )

    def family(self) -> list[int]:
        return [self.process.pid, *(pid for pid, _ in descendants(self.process.pid))]

    def signal_all(self, number: int) -> None:
        for pid in self.family():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def pause(self) -> None:
        """SIGSTOP for the whole family, but not inside a conditional write.

        A folder as object store serialises those with a kernel lock, which a stopped process
        keeps. Stores on the network have no such thing.
        """
        while True:
            self.signal_all(signal.SIGSTOP)
            if not self._holds_a_lock_of_the_store():
                return
            self.signal_all(signal.SIGCONT)
            time.sleep(0.01)

    def _holds_a_lock_of_the_store(self) -> bool:
        family = set(self.family())
        store = set()
        for path in (self.data.parent / "store").rglob("*"):
            with suppress(FileNotFoundError):
                store.add(path.lstat().st_ino)
        held = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return any(
            int(words[4]) in family and int(words[5].rsplit(":", 1)[1]) in store
            for words in held
            if words[1] != "->"
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def ready(self) -> dict[str, Any]:
        """What `/readyz` says; empty while nobody answers."""
        try:
            answer: dict[str, Any] = httpx.get(f"{self.url}/readyz", timeout=2).json()
        except httpx.HTTPError:
            return {}
        return answer

    def owns(self) -> bool:
        return self.ready().get("ready") is True

    def stands_by(self) -> bool:
        return any(reason.startswith("standby") for reason in self.ready().get("reasons", ()))

    def write(self, key: str, ref: str, *, timeout: float = 5) -> int | None:
        """Write one document durably; its version, or None when that was not acknowledged."""
        line = json.dumps({"kind": "note", "ref": ref, "note": f"crake {ref}"})
        try:
            answer = httpx.post(
                f"{self.url}/v1/documents:batch?durability=replicated",
                content=line,
                headers={"authorization": f"Bearer {key}"},
                timeout=timeout,
            )
        except httpx.HTTPError:
            return None
        return int(answer.json()["version"]) if answer.status_code == 200 else None


class Pushing(threading.Thread):
    """Writes one document after another, to whichever writer takes it."""

    def __init__(self, key: str, *writers: Command) -> None:
        super().__init__(daemon=True)
        self._key, self._writers = key, list(writers)
        self._enough = threading.Event()
        self.acknowledged: dict[str, int] = {}
        self.start()

    def run(self) -> None:
        number = 0
        while not self._enough.is_set():
            version = self._writers[0].write(self._key, f"d{number}", timeout=1)
            if version is not None:
                self.acknowledged[f"d{number}"] = version
            else:
                self._writers.reverse()
                self._enough.wait(0.05)
            number += 1

    def more(self, count: int = 10) -> None:
        goal = len(self.acknowledged) + count
        wait_for(lambda: len(self.acknowledged) >= goal, what=f"{count} more writes")

    def finish(self) -> dict[str, int]:
        self._enough.set()
        self.join()
        return self.acknowledged


def tenant_key(writer: Command) -> str:
    operator = {"authorization": f"Bearer {(writer.data / 'operator.key').read_text().strip()}"}
    admin = f"{writer.url}/v1/admin"
    made = httpx.post(f"{admin}/tenants", headers=operator, json={"name": "birds"}, timeout=20)
    assert made.status_code == 201, made.text
    body = {"tenant": "birds", "scopes": ["search", "sync"]}
    key = httpx.post(f"{admin}/keys", headers=operator, json=body, timeout=20).json()["key"]
    assert isinstance(key, str)
    return key


def missing(reader: Command, key: str, acknowledged: dict[str, int]) -> list[str]:
    """Refs that a reader at the last acknowledged version does not have."""
    client = httpx.Client(base_url=reader.url, headers={"authorization": f"Bearer {key}"})
    search = {"q": "crake", "min_version": max(acknowledged.values())}

    def caught_up() -> bool:
        with suppress(httpx.HTTPError):
            return client.post("/v1/search", json=search).status_code == 200
        return False

    wait_for(caught_up, what="the reader to have all of it")
    lost = []
    refs = list(acknowledged)
    for at in range(0, len(refs), 100):
        wanted = [{"kind": "note", "ref": ref} for ref in refs[at : at + 100]]
        answer = client.post("/v1/documents:get", json={"refs": wanted}).json()
        found = {document["ref"] for document in answer["documents"]}
        lost += [ref for ref in refs[at : at + 100] if ref not in found]
    client.close()
    return lost


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[tuple[Command, Command]]:
    """An owner and a standby."""
    first = Command("writer", tmp_path / "a")
    wait_for(first.owns, what="the first writer to own the shard")
    second = Command("writer", tmp_path / "b", secret_of=first.data)
    wait_for(second.stands_by, what="the second writer to stand by")
    yield first, second
    for command in (first, second):
        command.signal_all(signal.SIGCONT)
        command.kill()


def test_a_paused_and_a_killed_owner_lose_nothing_that_was_acknowledged(
    pair: tuple[Command, Command], tmp_path: Path
) -> None:
    first, second = pair
    assert "owned by a writer on" in second.ready()["reasons"][0]
    key = tenant_key(first)
    push = Pushing(key, first, second)
    push.more()

    first.pause()
    late: list[int | None] = []
    sleeper = threading.Thread(
        target=lambda: late.append(first.write(key, "late", timeout=60)), daemon=True
    )
    sleeper.start()  # it lies in the paused writer's socket
    wait_for(second.owns, what="the second writer to take over")
    push.more()
    first.signal_all(signal.SIGCONT)
    wait_for(first.stands_by, what="the first writer to step down")
    sleeper.join()
    assert late == [None]
    assert "it lost the shard to another writer" in first.ready()["reasons"]
    assert first.ready()["lease"]["lease_lost"] == 1
    push.more()

    # Now the other way: the first one's files are behind, and of another line.
    second.kill()
    wait_for(first.owns, what="the first writer to take over again")
    assert first.ready()["lease"]["takeovers"] == 1
    push.more()
    acknowledged = push.finish()

    reader = Command("reader", tmp_path / "r", secret_of=first.data)
    assert missing(reader, key, acknowledged) == []
    reader.kill()


def test_a_standby_of_another_deployment_does_not_start(
    pair: tuple[Command, Command], tmp_path: Path
) -> None:
    stranger = Command("writer", tmp_path / "c")
    assert stranger.process.wait(30) == 1
    assert "secret" in (stranger.data / "err").read_text()


def test_an_owner_that_stops_politely_is_followed_at_once(pair: tuple[Command, Command]) -> None:
    first, second = pair
    store = FolderStore(first.data.parent / "store")
    first.process.send_signal(signal.SIGTERM)
    assert first.process.wait(30) == 0
    wait_for(second.owns, what="the second writer to take over")
    assert "takeovers" not in second.ready()["lease"]  # nothing was taken: it was given
    lease = store.get("leases/main.json")
    assert isinstance(lease, Stored)
    assert json.loads(lease.body)["term"] == 2
