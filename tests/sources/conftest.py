from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.sources.world import Hosted, Machine


@pytest.fixture
def hosted(tmp_path: Path) -> Iterator[Hosted]:
    world = Hosted(tmp_path / "service")
    yield world
    world.close()


@pytest.fixture
def machine(hosted: Hosted, tmp_path: Path) -> Machine:
    return Machine(hosted, tmp_path / "machine")


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file that was changed so many seconds ago."""

    def write(name: str, content: str | bytes, *, ago_s: float = 100) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        moment = time.time() - ago_s
        os.utime(path, (moment, moment))
        return path

    return write
