"""An operator and a tenant's life: the command line against a real `memlane up`."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from service.cli import main
from service.index.reader import IndexReader
from service.tenancy.registry import now_ms
from tests.e2e.service import Service, wait_for

Admin = Callable[..., Any]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    service = Service(
        tmp_path_factory.mktemp("lifecycle"),
        MEMLANE_ERASE_WAIT_MS="0",
        MEMLANE_CHILD_BACKOFF_MS="300",
    )
    yield service
    assert service.stop() == 0


@pytest.fixture
def admin(running: Service) -> Admin:
    def run(*words: str, status: int = 0) -> Any:
        told = CliRunner().invoke(main, ["tenant", *words, "--data", str(running.data), "--json"])
        assert told.exit_code == status, told.output
        return json.loads(told.stdout.splitlines()[-1]) if told.stdout else told.stderr

    return run


def write(client: httpx.Client, running: Service, ref: str, title: str) -> int:
    line = json.dumps({"kind": "note", "ref": ref, "title": title, "updated_at": 1}).encode()
    answer = client.post(
        f"{running.writer}/v1/documents:batch", params={"durability": "replicated"}, content=line
    )
    assert answer.status_code == 200, answer.text
    return int(answer.json()["version"])


def found(client: httpx.Client, running: Service, **fields: Any) -> list[str]:
    answer = client.post(f"{running.reader}/v1/search", json={"q": "gateway", **fields})
    assert answer.status_code == 200, answer.text
    return sorted(hit["ref"] for hit in answer.json()["hits"])


def test_a_file_is_exported_by_the_writer_and_by_a_reader(
    running: Service, admin: Admin, tmp_path: Path
) -> None:
    client = running.tenant("exported")
    version = write(client, running, "n1", "Gateway keys")
    assert found(client, running, min_version=version) == ["n1"]
    for url in (running.writer, running.reader):
        out = tmp_path / f"{url[-4:]}.sqlite"
        told = admin("export", "exported", "--out", str(out), "--url", url)
        assert (told["version"], told["documents"]) == (version, 1)
        assert told["bytes"] == out.stat().st_size
        reader = IndexReader(out)
        with reader.snapshot():
            document = reader.get([("note", "n1")])[0]
        assert document is not None
        assert document.title == "Gateway keys"
        reader.close()
        assert "already" in admin("export", "exported", "--out", str(out), status=1)
    assert not list(running.data.rglob("exports/*"))
    made = CliRunner().invoke(
        main, ["key", "create", "exported", "--scope", "admin", "--data", str(running.data)]
    )
    own = ["--key", made.stdout.strip(), "--url", running.writer, "--out", str(tmp_path / "own")]
    assert admin("export", "exported", *own)["quick_check"] == "ok"
    assert "own tenant" in admin("export", "someone", "--force", *own, status=1)


def test_people_are_told_in_words(running: Service, tmp_path: Path) -> None:
    def say(*words: str) -> str:
        told = CliRunner().invoke(main, ["tenant", *words, "--data", str(running.data)])
        assert told.exit_code == 0, told.output
        return told.stdout

    client = running.tenant("told")
    write(client, running, "n1", "Gateway keys")
    out = tmp_path / "told.sqlite"
    assert f"{out}: version 1, 1 documents, " in say("export", "told", "--out", str(out))
    assert say("suspend", "told") == "tenant told is suspended\n"
    assert "told  suspended" in say("list")
    assert say("resume", "told") == "tenant told is active\n"
    assert "1 documents, version 1 -> 2" in say("restore", "told", "--at", str(now_ms()))
    assert "tenant told is deleted: 1 documents, " in say("delete", "told", "--yes")
    assert "told  deleted" in say("list")


def test_a_suspended_tenant_is_refused_by_both_and_resumes(running: Service, admin: Admin) -> None:
    client = running.tenant("suspended")
    version = write(client, running, "n1", "Gateway keys")
    assert found(client, running, min_version=version) == ["n1"]
    assert admin("suspend", "suspended")["state"] == "suspended"
    refused = client.post(f"{running.writer}/v1/documents:batch", content=b"{}")
    assert refused.json()["type"] == "/v1/problems/tenant-suspended"
    index = f"{running.reader}/v1/index"
    refusal = wait_for(lambda: (a := client.get(index)).status_code == 403 and a, what="a refusal")
    assert refusal.json()["type"] == "/v1/problems/tenant-suspended"
    assert admin("resume", "suspended")["state"] == "active"
    wait_for(lambda: client.get(index).status_code == 200, what="the resumed tenant")
    assert found(client, running) == ["n1"]


def test_a_tenant_is_restored_and_readers_follow(running: Service, admin: Admin) -> None:
    client = running.tenant("restored")
    write(client, running, "n1", "Gateway keys")
    at = now_ms()
    wait_for(lambda: now_ms() > at)
    version = write(client, running, "n2", "Gateway timeouts")
    would = admin("restore", "restored", "--at", str(at), "--dry-run")
    assert found(client, running, min_version=version) == ["n1", "n2"]
    done = admin("restore", "restored", "--at", str(at))
    assert (would["version"], would["documents"]) == (done["version"], 1)
    assert (done["from_version"], done["version"]) == (version, version + 1)
    assert done["restored_to"] <= at
    assert found(client, running, min_version=version + 1) == ["n1"]
    assert write(client, running, "n3", "Gateway limits") == version + 2
    assert found(client, running, min_version=version + 2) == ["n1", "n3"]
    assert "begins at" in admin("restore", "restored", "--at", "2020-01-01", status=1)


def test_a_deletion_survives_the_death_of_the_writer(running: Service, admin: Admin) -> None:
    client = running.tenant("deleted")
    version = write(client, running, "n1", "Gateway keys")
    assert found(client, running, min_version=version) == ["n1"]
    operator = httpx.Client(
        headers={"authorization": f"Bearer {(running.data / 'operator.key').read_text().strip()}"}
    )
    address = f"{running.writer}/v1/admin/tenants/deleted"
    told = operator.delete(address)
    assert told.status_code == 202
    assert told.json()["state"] == "deleting"
    for pid in running.children("roles.writer:create_app"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: receipt_at(operator, address), what="the receipt")
    receipt = receipt_at(operator, address)
    assert admin("delete", "deleted")["deletion"]["receipt"] == receipt
    assert receipt["objects_remaining"] == 0
    assert receipt["documents"] == 1
    assert client.get(f"{running.writer}/v1/index").status_code == 401
    wait_for(lambda: client.get(f"{running.reader}/v1/index").status_code == 401, what="a refusal")
    wait_for(
        lambda: not left_of(running.folder, receipt["file"]),
        what="no trace of it on any disk or in the store",
    )
    assert "already" in admin("create", "deleted", status=1)
    operator.close()


def left_of(folder: Path, file: str) -> list[Path]:
    return [path for path in folder.rglob("*") if file in str(path) and path.is_file()]


def receipt_at(operator: httpx.Client, address: str) -> Any:
    try:
        return operator.get(address).json()["deletion"]["receipt"]
    except (httpx.HTTPError, KeyError, ValueError):
        return None  # the writer is down
