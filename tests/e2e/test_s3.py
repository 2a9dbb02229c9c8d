"""A service whose only durable place is a bucket: what its disks lose comes back from there."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from golden.fleet.objects import S3
from service.replica import open_store
from service.replica.fencing import announced
from service.replica.names import replica_prefix
from service.roles.writer import SHARD
from service.settings import Settings
from tests.e2e.service import Service, wait_for


@pytest.fixture
def url(s3: S3, tmp_path: Path) -> str:
    """A prefix that nobody used before."""
    return s3.url.replace("/fleet?", f"/e2e/{tmp_path.name}?")


@pytest.fixture
def on_s3(url: str, tmp_path: Path) -> Iterator[Service]:
    running = Service(tmp_path, MEMLANE_STORE=url, MEMLANE_CHILD_BACKOFF_MS="300")
    yield running
    running.stop()


def test_a_reader_whose_cache_is_gone_answers_from_the_bucket(on_s3: Service) -> None:
    version = on_s3.write({"kind": "note", "ref": "a", "title": "spoonbill"})
    assert on_s3.refs("spoonbill", min_version=version) == ["a"]
    web = on_s3.children("roles.reader:create_app")
    for pid in (*web, on_s3.follower()):
        os.kill(pid, signal.SIGKILL)
    shutil.rmtree(on_s3.data / "reader")
    answered = wait_for(
        lambda: _answer(on_s3, "spoonbill", version), what="the reader to answer again"
    )
    assert [hit["ref"] for hit in answered["hits"]] == ["a"]
    assert answered["index"]["version"] == version


def test_all_disks_may_be_lost_but_the_secret_and_the_bucket(on_s3: Service) -> None:
    version = on_s3.write(
        {"kind": "note", "ref": "a", "title": "spoonbill"}, durability="replicated"
    )
    key = on_s3.told["key"]
    assert on_s3.stop() == 0
    for folder in ("writer", "reader"):
        shutil.rmtree(on_s3.data / folder)

    on_s3.start()
    assert on_s3.told["key"] == key
    assert on_s3.refs("spoonbill", min_version=version) == ["a"]
    later = on_s3.write({"kind": "note", "ref": "b", "title": "spoonbill"})
    assert later > version
    assert sorted(on_s3.refs("spoonbill", min_version=later)) == ["a", "b"]


def test_the_bucket_holds_everything_and_the_disk_no_credentials(
    on_s3: Service, s3: S3, url: str
) -> None:
    on_s3.write({"kind": "note", "ref": "a", "title": "spoonbill"}, durability="replicated")
    assert not (on_s3.data / "store").exists()
    store = open_store(url, Settings())
    heads, _ = announced(store, SHARD)
    assert heads is not None
    assert len(heads.tenants) >= 2  # the registry and the tenant
    for file, head in heads.tenants.items():
        folder = replica_prefix(file, head.epoch) + store.level_format.format(level=0)
        assert list(store.list(folder)), f"nothing below {folder}"
    secret = s3.environ["AWS_SECRET_ACCESS_KEY"].encode()
    files = [path for path in on_s3.data.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if secret in path.read_bytes()] == []


def _answer(service: Service, q: str, version: int) -> dict[str, Any] | None:
    """What a reader that is coming back says; None while it is not there or lacks the version."""
    try:
        answer = service.ask(q, min_version=version)
    except httpx.TransportError:
        return None
    told: dict[str, Any] = answer.json()
    return told if answer.status_code == 200 else None
