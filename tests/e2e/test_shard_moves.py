"""Two shards with a writer each, one reader: tenants on both, and one that moves under writes."""

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

from tests.e2e.service import descendants, free_ports, wait_for

LEASE_MS = 1_500


class Node:
    """`memlane writer` or `memlane reader` on a data folder of its own."""

    def __init__(self, folder: Path, *words: str, like: Path | None = None) -> None:
        self.data = folder
        self.port = free_ports()
        self.url = f"http://127.0.0.1:{self.port}"
        self._words = words
        folder.mkdir()
        if like is not None:
            shutil.copy(like / "secret", folder / "secret")
        self.start()

    def start(self) -> None:
        environ = {"MEMLANE_LEASE_MS": str(LEASE_MS), "MEMLANE_HEADS_INTERVAL_MS": "50"}
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "service", *self._words, "--data", str(self.data)),
                *("--store", str(self.data.parent / "store"), "--port", str(self.port)),
            ],
            stderr=(self.data / "err").open("ab"),
            env=os.environ | environ,
        )

    def kill(self) -> None:
        """SIGKILL for all its processes."""
        for pid in [self.process.pid, *(pid for pid, _ in descendants(self.process.pid))]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def wait_ready(self) -> None:
        def ready() -> bool:
            assert self.process.poll() is None, (self.data / "err").read_text()
            with suppress(httpx.HTTPError):
                return httpx.get(f"{self.url}/readyz", timeout=5).status_code == 200
            return False

        wait_for(ready, seconds=60, what=f"{self.data.name} to be ready")


class Fleet:
    """The writers of `main` and `east`, and a reader."""

    def __init__(self, folder: Path) -> None:
        self.main = Node(folder / "main", "writer")
        self.main.wait_ready()
        like = self.main.data
        self.east = Node(folder / "east", "writer", "--shard", "east", like=like)
        self.reader = Node(folder / "reader", "reader", like=like)
        self.east.wait_ready()
        self.reader.wait_ready()
        key = (like / "operator.key").read_text().strip()
        self.operator = {"authorization": f"Bearer {key}"}

    def close(self) -> None:
        for node in (self.reader, self.east, self.main):
            node.kill()

    def admin(self, path: str, body: Any = None, at: Node | None = None) -> httpx.Response:
        url = f"{(at or self.main).url}/v1/admin/{path}"
        return httpx.post(url, headers=self.operator, json=body or {}, timeout=60)

    def tenant(self, name: str, shard: str) -> dict[str, str]:
        """A new tenant's headers, once its shard's writer takes its batches."""
        assert self.admin("tenants", {"name": name, "shard": shard}).status_code == 201
        body = {"tenant": name, "scopes": ["search", "sync"]}
        headers = {"authorization": f"Bearer {self.admin('keys', body).json()['key']}"}
        node = self.main if shard == "main" else self.east
        wait_for(lambda: self.write(node, headers, "first").status_code == 200, what=name)
        return headers

    def write(
        self, node: Node, headers: dict[str, str], ref: str, durability: str = "replicated"
    ) -> httpx.Response:
        line = {"kind": "note", "ref": ref, "title": f"pelican {ref}", "updated_at": 1}
        return httpx.post(
            f"{node.url}/v1/documents:batch",
            params={"durability": durability},
            headers=headers,
            content=json.dumps(line) + "\n",
            timeout=30,
        )

    def documents(self, headers: dict[str, str], **fields: Any) -> int:
        """How many documents the reader's index of the tenant holds."""
        body = {"q": "pelican", "limit": 1, **fields}
        answer = httpx.post(f"{self.reader.url}/v1/search", headers=headers, json=body, timeout=30)
        return int(answer.json()["index"]["docs"]) if answer.status_code == 200 else -1

    def sealed(self) -> bool:
        """Whether a move from `main` has come so far that its file is sealed there, or further."""
        heads = json.loads((self.main.data.parent / "store" / "heads" / "main.json").read_bytes())
        east = json.loads((self.main.data.parent / "store" / "heads" / "east.json").read_bytes())
        sealed = any("moved_to" in head for head in heads["tenants"].values())
        shared = not set(heads["tenants"]).isdisjoint(east["tenants"])
        return sealed or shared or self.shard("gulls")[0] == "east"

    def shard(self, name: str) -> tuple[str, str | None]:
        url = f"{self.main.url}/v1/admin/tenants/{name}"
        with suppress(httpx.HTTPError):
            told = httpx.get(url, headers=self.operator, timeout=10).json()
            return told.get("shard", ""), told.get("moving_to")
        return "", "?"

    def move(self, name: str, shard: str) -> None:
        """Have a tenant moved, and wait for it."""

        def asked() -> bool:
            return self.admin(f"tenants/{name}:move", {"to": shard}).status_code == 200

        wait_for(asked, seconds=60, what=f"the move of {name}")
        wait_for(lambda: self.shard(name) == (shard, None), seconds=60, what=f"{name} on {shard}")


class Pen(threading.Thread):
    """Writes document after document to whoever takes it; keeps what was acknowledged."""

    def __init__(self, fleet: Fleet, headers: dict[str, str]) -> None:
        super().__init__()
        self.acknowledged: list[str] = []
        self.versions: list[int] = []
        self.by: set[str] = set()
        self.statuses: set[int] = set()
        self._fleet, self._headers = fleet, headers
        self._ending = threading.Event()
        self.start()

    def run(self) -> None:
        node, number = self._fleet.main, 0
        while not self._ending.is_set():
            durability = "local" if number % 2 else "replicated"
            try:
                answer = self._fleet.write(node, self._headers, f"r{number}", durability)
                self.statuses.add(answer.status_code)
            except httpx.HTTPError:
                answer = None
            if answer is not None and answer.status_code == 200:
                self.acknowledged.append(f"r{number}")
                self.versions.append(answer.json()["version"])
                self.by.add(node.data.name)
                number += 1
            else:
                node = self._fleet.east if node is self._fleet.main else self._fleet.main
                time.sleep(0.02)

    def wait_for_more(self) -> None:
        most = len(self.acknowledged) + 5
        wait_for(lambda: len(self.acknowledged) > most)

    def end(self) -> None:
        self._ending.set()
        self.join()


class Eye(threading.Thread):
    """Asks the reader all the time; keeps how many documents each answer's index held."""

    def __init__(self, fleet: Fleet, headers: dict[str, str]) -> None:
        super().__init__()
        self.seen: list[int] = []
        self._fleet, self._headers = fleet, headers
        self._ending = threading.Event()
        self.start()

    def run(self) -> None:
        while not self._ending.wait(0.02):
            self.seen.append(self._fleet.documents(self._headers))

    def end(self) -> None:
        self._ending.set()
        self.join()


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[Fleet]:
    running = Fleet(tmp_path)
    yield running
    running.close()


def missing(fleet: Fleet, headers: dict[str, str], pen: Pen) -> list[str]:
    """Acknowledged documents that the reader does not find at the last acknowledged version."""
    least = max(pen.versions)
    wait_for(lambda: fleet.documents(headers, min_version=least) > 0, what="the last version")
    refs = ["first", *pen.acknowledged]
    lacking = []
    for at in range(0, len(refs), 50):
        body = {
            "refs": [{"kind": "note", "ref": ref} for ref in refs[at : at + 50]],
        }
        url = f"{fleet.reader.url}/v1/documents:get"
        answer = httpx.post(url, headers=headers, json=body, timeout=30)
        assert answer.status_code == 200, answer.text
        lacking += answer.json()["missing"]
    return lacking


def test_a_tenant_moves_there_and_back_under_writes(fleet: Fleet) -> None:
    west, east = fleet.tenant("gulls", "main"), fleet.tenant("terns", "east")
    wait_for(lambda: fleet.documents(west) == 1 and fleet.documents(east) == 1)
    # The wrong writer says which is the right one, and leaves administration to the other.
    refused = wait_for(lambda: _told(fleet.write(fleet.main, east, "x"), fleet.east.url))
    assert refused["type"].endswith("not-the-writer")
    told = fleet.admin("tenants", {"name": "auks"}, at=fleet.east)
    assert (told.status_code, told.json()["writer_url"]) == (421, fleet.main.url)

    pen, eye = Pen(fleet, west), Eye(fleet, west)
    try:
        wait_for(lambda: len(pen.acknowledged) > 5)
        for to in ("east", "main"):
            fleet.move("gulls", to)
            pen.wait_for_more()
    finally:
        pen.end()
        eye.end()
    assert eye.seen == sorted(eye.seen)  # the reader never lost the file, nor went back
    assert eye.seen[0] > 0
    assert pen.by == {"main", "east"}
    assert pen.statuses <= {200, 421, 503}
    assert pen.versions == sorted(set(pen.versions))
    assert missing(fleet, west, pen) == []


def _told(answer: httpx.Response, url: str) -> Any:
    told = answer.json()
    return told if answer.status_code == 421 and told["writer_url"] == url else None


@pytest.mark.parametrize("killed", ["main", "east"])
def test_a_move_goes_on_after_a_kill(fleet: Fleet, killed: str) -> None:
    headers = fleet.tenant("gulls", "main")
    pen = Pen(fleet, headers)
    victim = fleet.main if killed == "main" else fleet.east
    try:
        wait_for(lambda: len(pen.acknowledged) > 5)
        caller = threading.Thread(target=lambda: _quietly(fleet))
        caller.start()
        wait_for(fleet.sealed, what="the source to seal the file")
        victim.kill()
        victim.start()
        victim.wait_ready()
        caller.join()
        fleet.move("gulls", "east")
        wait_for(lambda: "east" in pen.by, seconds=60)
    finally:
        pen.end()
    assert pen.versions == sorted(set(pen.versions))
    assert missing(fleet, headers, pen) == []


def _quietly(fleet: Fleet) -> None:
    with suppress(httpx.HTTPError):
        fleet.admin("tenants/gulls:move", {"to": "east"})


def test_other_shards_leave_deletion_and_restore_to_main(fleet: Fleet) -> None:
    headers = fleet.tenant("terns", "east")
    url = f"{fleet.main.url}/v1/admin/tenants/terns"
    refused = httpx.delete(url, headers=fleet.operator, timeout=60)
    assert (refused.status_code, "--to main" in refused.json()["hint"]) == (409, True)
    refused = fleet.admin("tenants/terns:restore", {"at": 1_000})
    assert (refused.status_code, "--to main" in refused.json()["hint"]) == (409, True)
    assert fleet.documents(headers) == 1
    fleet.move("terns", "main")
    done = httpx.delete(url, headers=fleet.operator, timeout=60)
    assert (done.status_code, done.json()["deletion"]["receipt"]["objects_remaining"]) == (200, 0)
    wait_for(lambda: fleet.documents(headers) == -1, what="the reader to refuse")
