from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

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
