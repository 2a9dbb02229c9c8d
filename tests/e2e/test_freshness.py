"""Write on the writer, read on the reader: how soon, how old, and what a dead replicator shows."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.service import Service, wait_for


def note(ref: str, title: str) -> dict[str, str]:
    return {"kind": "note", "ref": ref, "title": title}


def test_a_write_becomes_visible_by_itself(service: Service) -> None:
    version = service.write(note("seen", "pelican"))
    wait_for(lambda: "seen" in service.refs("pelican"), seconds=10, what="the write on the reader")
    answer = service.ask("pelican").json()
    assert answer["index"]["version"] >= version
    assert answer["semantic"]["state"] == "disabled"
    assert answer["semantic"]["reason"] == "no_sidecar"


def test_min_version_never_returns_older_data(service: Service) -> None:
    for turn in range(20):
        version = service.write(note("turn", f"heron{turn}"))
        answer = service.ask(f"heron{turn}", min_version=version)
        assert answer.status_code == 200, answer.text
        assert answer.json()["index"]["version"] >= version
        assert [hit["ref"] for hit in answer.json()["hits"]] == ["turn"]


def test_a_version_that_does_not_exist_is_refused_with_what_there_is(service: Service) -> None:
    version = service.write(note("edge", "wagtail"))
    answer = service.ask("wagtail", min_version=version + 1000)
    assert answer.status_code == 409
    problem = answer.json()
    assert problem["type"].endswith("replica-behind")
    assert problem["version"] >= version


def test_the_semantic_state_is_counted_once_a_query(service: Service) -> None:
    def counted() -> int:
        states = service.http.get(f"{service.reader}/readyz").json()["semantic"]
        return sum(entry if isinstance(entry, int) else 0 for entry in states.values())

    before = counted()
    for _ in range(25):
        answer = service.ask("anything")
        assert answer.headers["memlane-semantic"] == "disabled; reason=no_sidecar"
    assert counted() == before + 25


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path, MEMLANE_STALENESS_MS="1500", MEMLANE_HEADS_HEARTBEAT_MS="500")
    yield running
    running.stop()


@pytest.mark.parametrize("number", [signal.SIGSTOP, signal.SIGKILL])
def test_without_litestream_answers_age_and_readyz_says_so(alone: Service, number: int) -> None:
    alone.write(note("a", "cormorant"))
    wait_for(lambda: alone.refs("cormorant") == ["a"], what="the write on the reader")
    assert alone.http.get(f"{alone.reader}/readyz").status_code == 200

    ages: list[int] = []
    deadline = time.monotonic() + 30
    while not ages or ages[-1] < 3000:
        for pid in alone.children("litestream", "replicate"):  # it is started again and again
            os.kill(pid, number)
        answer = alone.ask("cormorant").json()
        assert [hit["ref"] for hit in answer["hits"]] == ["a"], "answers keep coming"
        ages.append(answer["index"]["age_ms"])
        assert time.monotonic() < deadline, f"the age does not grow: {ages[-5:]}"
        time.sleep(0.05)
    not_ready = alone.http.get(f"{alone.reader}/readyz")
    assert not_ready.status_code == 503
    assert "published" in not_ready.text
    refused = alone.http.post(
        f"{alone.writer}/v1/documents:batch", content=b'{"kind": "note", "ref": "b"}\n'
    )
    assert refused.status_code == 503
    assert refused.headers["retry-after"]

    for pid in alone.children("litestream", "replicate"):
        os.kill(pid, signal.SIGCONT)
    ready = f"{alone.reader}/readyz"
    wait_for(lambda: alone.http.get(ready).status_code == 200, what="the reader to be ready again")
    assert alone.ask("cormorant").json()["index"]["age_ms"] < 3000
