from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.replica import FolderStore, failures
from tests.replica.shard_world import Shard
from tests.replica.world import Writer


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Writer]:
    """A running writer node, shared by the tests of a module: each makes files of its own."""
    node = Writer(tmp_path_factory.mktemp("writer")).start()
    yield node
    node.stop()


@pytest.fixture
def own_writer(tmp_path: Path) -> Iterator[Writer]:
    """A running writer node for a test that hurts it."""
    node = Writer(tmp_path / "node").start()
    yield node
    node.stop()


@pytest.fixture
def shard(tmp_path: Path) -> Shard:
    """A shard made by hand in a folder store."""
    return Shard(tmp_path, FolderStore(tmp_path / "store"), "0")


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that failed is tried again almost at once."""
    monkeypatch.setattr(failures, "RETRY_MS", 20)
    monkeypatch.setattr(failures, "RETRY_MOST_MS", 40)
