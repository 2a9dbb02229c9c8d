"""A real `memlane up` in its own folder: gunicorn, Litestream, the follower, all of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import httpx

START_S = 60
STOP_S = 40


def free_ports() -> int:
    """A port whose two successors are free too: the writer's and the sidecar's."""
    while True:
        with socket.socket() as first, socket.socket() as second, socket.socket() as third:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                second.bind(("127.0.0.1", port + 1))
                third.bind(("127.0.0.1", port + 2))
            except (OSError, OverflowError):
                continue
            return port


def wait_for(condition: Callable[[], Any], *, seconds: float = 30, what: str = "") -> Any:
    """Poll until the condition gives something true; its value."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"waited {seconds} s for {what or condition}"
        time.sleep(0.02)
    return found


class Service:
    """`memlane up --json` as a child; `restart` keeps the folder."""

    def __init__(self, folder: Path, **environ: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.port = free_ports()
        self._environ = environ
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "service", "up", "--json"),
                *("--data", self.data.name, "--port", str(self.port)),
            ],
            stdout=subprocess.PIPE,
            stderr=(self.folder / "up.err").open("ab"),
            env=os.environ | self._environ,
            cwd=self.folder,  # a relative data folder, as people type it
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (self.folder / "up.err").read_text()
        self.told: dict[str, Any] = json.loads(line)
        self.reader, self.writer = self.told["reader_url"], self.told["writer_url"]
        self.http = httpx.Client(
            headers={"authorization": f"Bearer {self.told['key']}"}, timeout=60
        )

    def stop(self) -> int:
        self.http.close()
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_S)

    # --- the API

    def write(self, *lines: Mapping[str, Any], **query: str) -> int:
        """Write documents; the version that holds them."""
        body = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
        answer = self.http.post(f"{self.writer}/v1/documents:batch", params=query, content=body)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return int(answer.json()["version"])

    def ask(self, q: str, **fields: Any) -> httpx.Response:
        """Ask the reader."""
        return self.http.post(f"{self.reader}/v1/search", json={"q": q, **fields})

    def refs(self, q: str, **fields: Any) -> list[str]:
        answer = self.ask(q, **fields)
        assert answer.status_code == 200, answer.text
        return [hit["ref"] for hit in answer.json()["hits"]]

    def tenant(self, name: str) -> httpx.Client:
        """A client of a fresh tenant, once the reader knows its key."""
        operator = {"authorization": f"Bearer {(self.data / 'operator.key').read_text().strip()}"}
        admin = f"{self.writer}/v1/admin"
        made = httpx.post(f"{admin}/tenants", headers=operator, json={"name": name})
        assert made.status_code == 201, made.text
        body = {"tenant": name, "scopes": ["search", "sync"]}
        key = httpx.post(f"{admin}/keys", headers=operator, json=body).json()["key"]
        client = httpx.Client(headers={"authorization": f"Bearer {key}"}, timeout=60)
        index = f"{self.reader}/v1/index"
        wait_for(lambda: client.get(index).status_code == 200, what="the key on the reader")
        return client

    # --- its processes

    def children(self, *words: str) -> list[int]:
        """Process ids below ours whose command line holds all the words."""
        return [
            pid
            for pid, command in descendants(self.process.pid)
            if all(word in command for word in words)
        ]

    def litestream(self) -> int:
        return self.children("litestream", "replicate")[0]

    def follower(self) -> int:
        return self.children("service.roles.follower")[0]


def descendants(root: int) -> Iterable[tuple[int, str]]:
    parents: dict[int, int] = {}
    commands: dict[int, str] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            # A web process says which role it serves only in its environment.
            for fact in (entry / "environ").read_bytes().split(b"\0"):
                command += (
                    fact.decode(errors="replace") if fact.startswith(b"MEMLANE_SERVE") else ""
                )
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        parents[int(entry.name)] = int(stat.rsplit(")", 1)[1].split()[1])
        commands[int(entry.name)] = command
    for pid in parents:
        at = pid
        while at in parents and at != root:
            at = parents[at]
        if at == root and pid != root:
            yield pid, commands[pid]
