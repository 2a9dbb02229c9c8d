"""A real sidecar with a real (tiny) model beside a real service, hurt and healed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedder.builds.recipes import build
from tests.e2e.service import Service, free_ports, wait_for


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("semantic")
    build("tiny", folder / "tiny")
    # One worker has one circuit breaker: what is seen here is the life of that one.
    running = Service(folder, MEMLANE_EMBEDDER=str(folder / "tiny"), MEMLANE_READER_WORKERS="1")
    running.write(
        *({"kind": "note", "ref": f"n{n}", "note": f"green kettle number {n}"} for n in range(20))
    )
    wait_for(lambda: header(running, "green kettle") == "ok", what="the backfill")
    yield running
    assert running.stop() == 0


def header(service: Service, q: str) -> str:
    answer = service.ask(q)
    assert answer.status_code == 200, answer.text
    state = answer.json()["semantic"]
    told = str(answer.headers["memlane-semantic"])
    assert told.split(";")[0] == state["state"]
    return told


def sidecar(service: Service) -> int:
    [pid] = service.children("-m embedder --model")
    return pid


def status(service: Service) -> dict[str, Any]:
    found: dict[str, Any] = service.http.get(f"{service.reader}/v1/index").json()
    return found


def test_after_the_backfill_all_candidates_have_vectors(service: Service) -> None:
    wait_for(lambda: status(service)["vectors"]["coverage"] == 1.0, what="full coverage")
    answer = service.ask("green kettle").json()
    assert answer["semantic"]["state"] == "ok"
    assert answer["semantic"]["coverage"] == 1.0
    assert answer["semantic"]["model"].startswith("tiny@")
    assert all("semantic" in hit["components"] for hit in answer["hits"])


@pytest.mark.parametrize("hurt", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "paused"])
def test_a_hurt_sidecar_costs_nothing_but_its_own_lane(service: Service, hurt: int) -> None:
    plain = service.refs("kettle number", semantic={"deadline_ms": 0})
    pid = sidecar(service)
    os.kill(pid, hurt)
    seen = []
    for count in range(200):
        seen.append(header(service, f"kettle number of {hurt} and {count}"))
        if seen[-1] == "skipped; reason=circuit_open":
            break
    lost = {"timeout; reason=sidecar_unavailable", "timeout; reason=deadline"}
    assert set(seen[:-1]) <= lost | {"ok"}, seen
    assert set(seen) & lost
    assert seen[-1] == "skipped; reason=circuit_open"
    assert service.refs("kettle number") == plain
    if hurt == signal.SIGSTOP:
        os.kill(pid, signal.SIGCONT)
    counter = iter(range(10_000))
    wait_for(
        lambda: header(service, f"kettle number again {hurt} {next(counter)}") == "ok",
        what="the sidecar's return",
    )


def test_the_commands_show_and_set_what_vectors_do(service: Service) -> None:
    def run(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-m", "service", "index", *words, "--data", service.data, "--json"],
            capture_output=True,
            check=True,
        )
        told: dict[str, Any] = json.loads(done.stdout)
        return told

    vectors = run("status")["vectors"]
    assert vectors["by_kind"]["note"]["coverage"] == 1.0
    assert vectors["oldest_missing_ms"] is None
    assert run("semantic", "0")["percent"] == 0
    wait_for(lambda: header(service, "green kettle") == "disabled; reason=tenant_off")
    assert run("semantic", "100")["percent"] == 100
    wait_for(lambda: header(service, "green kettle") == "ok")


def test_vectors_travel_with_their_documents(service: Service) -> None:
    body = {"refs": [{"kind": "note", "ref": "n1"}], "vectors": True}
    [found] = service.http.post(f"{service.reader}/v1/documents:get", json=body).json()["documents"]
    sent = json.dumps({**found, "ref": "moved"})
    answer = service.http.post(f"{service.writer}/v1/documents:batch", content=sent)
    assert answer.json()["vectors"] == {"carried": 1, "kept": 1}


def test_a_model_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "service", "up", "--data", str(tmp_path)),
            *("--port", str(free_ports())),
            *("--embedder", str(tmp_path / "none")),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "did not start" in done.stderr
    assert "memlane model build" in done.stderr
