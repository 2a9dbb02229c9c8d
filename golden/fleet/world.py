"""A fleet: writers that share a shard, readers, one object store, and the tenants on it."""

from __future__ import annotations

import dataclasses
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from golden.fleet import objects
from golden.fleet.process import Tree, Usage, free_ports, wait_for
from service.errors import Unavailable

READY_S = 90.0
CALL_S = 20.0
THREADS = 8
OK = 200


@dataclasses.dataclass(slots=True)
class Node:
    """A role and where it answers."""

    tree: Tree
    url: str
    folder: Path

    def ready(self) -> dict[str, Any] | None:
        """What `readyz` says; None when nobody answers."""
        try:
            told: dict[str, Any] = httpx.get(f"{self.url}/readyz", timeout=2.0).json()
        except (httpx.HTTPError, ValueError):
            return None
        return told


@dataclasses.dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant and a key of its own."""

    name: str
    key: str

    @property
    def headers(self) -> dict[str, str]:
        """What a request of this tenant carries."""
        return {"authorization": f"Bearer {self.key}"}


class Fleet:
    """Roles on this machine. Calls fit any thread; the HTTP client is shared.

    Attributes:
        store: the object store.
        writers, readers: the nodes, running or not.
    """

    def __init__(
        self,
        folder: Path,
        store: objects.Objects,
        *,
        writers: int,
        environ: Mapping[str, str],
        writer_environ: Mapping[str, str],
        reader_environs: Sequence[Mapping[str, str]],
    ) -> None:
        self.store = store
        self._folder = folder
        self._environ = dict(environ) | dict(store.environ)
        self.writers = [self._node("writer", number, writer_environ) for number in range(writers)]
        self.readers = [
            self._node("reader", number, own) for number, own in enumerate(reader_environs)
        ]
        self.http = httpx.Client(
            timeout=CALL_S, limits=httpx.Limits(max_connections=64), trust_env=False
        )

    # --- life

    def start(self) -> None:
        """Bring everything up; standby writers may stay unready.

        Raises:
            Unavailable: a role did not come up in time; its log's end says why.
        """
        self.store.start()
        first, *others = self.writers
        first.tree.start()
        self._wait_ready(first)
        # One deployment, one secret and operator key: an operator copies them to every node.
        for writer in others:
            writer.folder.mkdir(parents=True, exist_ok=True)
            for name in ("secret", "operator.key"):
                shutil.copy(first.folder / name, writer.folder / name)
            writer.tree.start()
        for reader in self.readers:
            reader.tree.start()
        for reader in self.readers:
            self._wait_ready(reader)

    def stop(self) -> None:
        """Let everything end."""
        self.http.close()
        for node in (*self.readers, *self.writers):
            node.tree.stop()
        self.store.stop()

    def active_writer(self) -> Node | None:
        """The writer that takes batches now."""
        for writer in self.writers:
            told = writer.ready()
            if told is not None and told.get("ready"):
                return writer
        return None

    def usage(self) -> list[Usage]:
        """What every process holds now."""
        return [use for node in (*self.writers, *self.readers) for use in node.tree.usage()]

    # --- tenants

    def create(self, name: str) -> Tenant:
        """A tenant with a key for searching and syncing.

        Raises:
            Unavailable: no writer took it.
        """
        self.admin("POST", "/v1/admin/tenants", {"name": name})
        body = {"tenant": name, "scopes": ["search", "sync", "admin"]}
        return Tenant(name, self.admin("POST", "/v1/admin/keys", body)["key"])

    def create_many(self, names: Sequence[str]) -> list[Tenant]:
        """Tenants, several at once."""
        with ThreadPoolExecutor(THREADS) as pool:
            return list(pool.map(self.create, names))

    def admin(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """A call with the operator's key.

        Raises:
            Unavailable: no writer took it.
        """
        key = (self.writers[0].folder / "operator.key").read_text().strip()
        return self._to_a_writer(method, path, {"authorization": f"Bearer {key}"}, json=body)

    def write(
        self,
        tenant: Tenant,
        lines: bytes,
        *,
        durability: str = "local",
        idempotency_key: str | None = None,
    ) -> int:
        """Write a batch; the version that holds it.

        Raises:
            Unavailable: no writer acknowledged it.
        """
        headers = dict(tenant.headers)
        if idempotency_key is not None:
            headers["idempotency-key"] = idempotency_key
        path = f"/v1/documents:batch?durability={durability}"
        return int(self._to_a_writer("POST", path, headers, content=lines)["version"])

    def _to_a_writer(self, method: str, path: str, headers: Mapping[str, str], **body: Any) -> Any:
        last = "no writer"
        for writer in self.writers:
            try:
                answer = self.http.request(method, writer.url + path, headers=headers, **body)
            except httpx.HTTPError as error:
                last = type(error).__name__
                continue
            if answer.is_success:
                return answer.json()
            last = f"{answer.status_code} {answer.text[:200]}"
        raise Unavailable(f"no writer takes {method} {path}: {last}")

    # --- inside

    def _node(self, role: str, number: int, environ: Mapping[str, str]) -> Node:
        name = f"{role}-{number}"
        folder = self._folder / name
        (port,) = free_ports(1)
        options = ["--store", self.store.url, "--port", str(port)]
        if role == "writer":
            options += ["--data", str(folder)]
        else:
            options += ["--cache", str(folder), "--secret", str(self._folder / "writer-0/secret")]
        tree = Tree(
            name,
            [sys.executable, "-m", "service", role, *options],
            log=self._folder / f"{name}.log",
            environ=self._environ | dict(environ),
        )
        return Node(tree, f"http://127.0.0.1:{port}", folder)

    def _wait_ready(self, node: Node) -> None:
        def ready() -> bool:
            if not node.tree.running:
                raise Unavailable(f"{node.tree.name} ended: {node.tree.told()}")
            return bool((node.ready() or {}).get("ready"))

        wait_for(ready, READY_S, f"{node.tree.name}")


@contextmanager
def running(
    kind: objects.Kind,
    *,
    writers: int = 1,
    readers: int = 1,
    keep: Path | None = None,
    environ: Mapping[str, str] | None = None,
    writer_environ: Mapping[str, str] | None = None,
    reader_environs: Sequence[Mapping[str, str]] | None = None,
) -> Iterator[Fleet]:
    """A fleet for the block; its folder goes with it unless `keep` names one.

    `environ` is for all its processes, `writer_environ` for all writers; `reader_environs` has one
    for each reader, and says how many there are.

    Raises:
        SetupError: the store's server is not installed.
        Unavailable: a role did not come up in time.
    """
    folder = keep or Path(tempfile.mkdtemp(prefix="memlane-fleet-"))
    folder.mkdir(parents=True, exist_ok=True)
    fleet = Fleet(
        folder,
        objects.make(kind, folder / "store"),
        writers=writers,
        environ=environ or {},
        writer_environ=writer_environ or {},
        reader_environs=reader_environs or [{}] * readers,
    )
    try:
        fleet.start()
        yield fleet
    finally:
        fleet.stop()
        if keep is None:
            shutil.rmtree(folder, ignore_errors=True)


def timed_ms(started: float) -> float:
    """Milliseconds since a moment of the monotonic clock."""
    return (time.monotonic() - started) * 1_000
