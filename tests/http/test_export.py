"""A tenant's file taken away whole, while it is written."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest

from service.errors import ReplicaBehind
from service.index.document import Document, Upsert
from service.index.reader import IndexReader
from service.index.rows import read_documents
from service.index.writer import IndexWriter
from service.tenancy.records import TenantState
from tests.http.conftest import FakeOpened


class OneFile:
    """The tenant's real file, as a node's `files`."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def open(self, file: str, *, min_version: int | None, **_: Any) -> Iterator[Any]:
        reader = IndexReader(self.path)
        try:
            with reader.snapshot():
                if min_version is not None and reader.version < min_version:
                    raise ReplicaBehind("behind", version=reader.version, age_ms=250)
                yield FakeOpened(reader)  # type: ignore[arg-type]
        finally:
            reader.close()

    def health(self) -> dict[str, Any]:
        return {"ready": True, "reasons": []}


class Exporting:
    def __init__(self, world: Any) -> None:
        self.world = world
        self.path = world.folder / "acme.db"
        self.writer = IndexWriter(self.path)
        self.digests: dict[int, str] = {}
        node = world.reader.app_state["node"]
        object.__setattr__(node, "files", OneFile(self.path))
        self.node = node
        self.write(0)

    def write(self, number: int) -> int:
        documents = [
            Document(kind="note", ref=f"{number % 7}-{i}", title=f"Gate {number}", note="x" * 900)
            for i in range(20)
        ]
        version = self.writer.apply(
            [Upsert(line=1, document=document) for document in documents]
        ).version
        self.digests[version] = digest(self.path)
        return version

    def ask(self, scope: str = "admin", **params: Any) -> Any:
        return self.world.reader.get("/v1/export", params=params, headers=self.world.headers(scope))

    def left(self) -> list[Path]:
        return [path for path in self.node.export_folder.iterdir() if path.suffix == ".tmp"]


def digest(path: Path) -> str:
    """Every document and stamp: equal digests are equal contents."""
    connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    with connection:
        found = [repr(document) for _, document in read_documents(connection)]
        found += [repr(row) for row in connection.execute("SELECT * FROM meta ORDER BY key")]
    connection.close()
    return hashlib.sha256("\n".join(found).encode()).hexdigest()


@pytest.fixture
def exporting(world: Any) -> Iterator[Exporting]:
    made = Exporting(world)
    yield made
    made.writer.close()


def saved(answer: Any, folder: Path) -> Path:
    path = folder / "export.sqlite"
    path.write_bytes(answer.content)
    return path


def test_an_export_is_one_committed_version_while_batches_go_on(
    exporting: Exporting, tmp_path: Path
) -> None:
    ending = threading.Event()

    def write() -> None:
        number = 0
        while not ending.is_set():
            number += 1
            exporting.write(number)

    thread = threading.Thread(target=write)
    thread.start()
    seen: set[int] = set()
    deadline = time.monotonic() + 20
    while len(seen) < 5 and time.monotonic() < deadline:
        answer = exporting.ask()
        assert answer.status_code == 200
        version = int(answer.headers["memlane-index-version"])
        path = saved(answer, tmp_path)
        assert int(answer.headers["content-length"]) == path.stat().st_size
        connection = apsw.Connection(str(path))
        assert connection.execute("PRAGMA quick_check").get == "ok"
        assert connection.pragma("journal_mode") == "delete"
        connection.close()
        while version not in exporting.digests:
            time.sleep(0.001)
        assert digest(path) == exporting.digests[version]
        seen.add(version)
    ending.set()
    thread.join()
    assert len(seen) == 5
    assert exporting.left() == []


def test_an_export_can_be_opened_and_searched_and_carries_nothing_of_replication(
    exporting: Exporting, tmp_path: Path
) -> None:
    connection = apsw.Connection(str(exporting.path))
    connection.execute("CREATE TABLE _litestream_seq(id INTEGER PRIMARY KEY, seq INTEGER)")
    connection.close()
    answer = exporting.ask()
    assert answer.headers["content-type"] == "application/vnd.sqlite3"
    assert answer.headers["content-disposition"] == 'attachment; filename="acme-v1.sqlite"'
    assert answer.headers["memlane-index-documents"] == "20"
    assert answer.headers["memlane-index-age-ms"] == "250"
    reader = IndexReader(saved(answer, tmp_path))
    with reader.snapshot():
        assert reader.docs == 20
    tables = {name for (name,) in reader.connection.execute("SELECT name FROM sqlite_schema")}
    assert not any(name.startswith("_litestream") for name in tables)
    reader.close()


def test_only_the_tenants_admin_and_the_operator_may_take_the_file(exporting: Exporting) -> None:
    assert exporting.ask("search").status_code == 403
    assert exporting.ask("sync").status_code == 403
    assert exporting.ask("admin", tenant="acme").status_code == 200
    assert exporting.ask("admin", tenant="other").status_code == 403
    assert exporting.ask("operator").status_code == 400
    assert exporting.ask("operator", tenant="nobody").status_code == 404
    exporting.world.registry.set_state("acme", TenantState.SUSPENDED)
    assert exporting.ask("admin").json()["type"] == "/v1/problems/tenant-suspended"
    assert exporting.ask("operator", tenant="acme").status_code == 200
    exporting.world.registry.set_state("acme", TenantState.DELETED)
    assert exporting.ask("operator", tenant="acme").status_code == 404


def test_asking_for_the_headers_alone_copies_nothing(exporting: Exporting) -> None:
    answer = exporting.world.reader.head("/v1/export", headers=exporting.world.headers("admin"))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/vnd.sqlite3"
    assert not exporting.node.export_folder.exists()


def test_an_export_waits_for_a_version_or_says_which_it_has(exporting: Exporting) -> None:
    assert exporting.ask(min_version=1).status_code == 200
    behind = exporting.ask(min_version=9)
    assert behind.json()["type"] == "/v1/problems/replica-behind"
    assert behind.json()["version"] == 1
    assert exporting.left() == []


def test_a_disk_without_room_is_said_to_have_none_and_nothing_is_left(
    exporting: Exporting, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, before[1]))
    try:
        answer = exporting.ask()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert answer.status_code == 503
    assert answer.json()["detail"] == "the disk has no room for the copy"
    assert exporting.left() == []
    usage = shutil.disk_usage("/")._replace(free=1_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    answer = exporting.ask()
    assert answer.status_code == 503
    assert "disk has 1000" in answer.json()["detail"]
    assert exporting.left() == []


def test_a_copy_whose_maker_died_is_cleared_away(exporting: Exporting) -> None:
    exporting.node.export_folder.mkdir()
    old, young = (exporting.node.export_folder / f"{name}.tmp" for name in ("old", "young"))
    for path in (old, young):
        path.write_bytes(b"x")
    os.utime(old, (1, 1))
    assert exporting.ask().status_code == 200
    assert exporting.left() == [young]


def test_a_place_among_the_exports_is_given_back(make_world: Any) -> None:
    exporting = Exporting(make_world(exports_running=1, export_queue=1))
    for _ in range(3):
        assert exporting.ask().status_code == 200
        assert exporting.ask(min_version=9).status_code == 409
    exporting.writer.close()
