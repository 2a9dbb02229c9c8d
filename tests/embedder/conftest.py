from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from embedder.builds.recipes import build
from embedder.catalog import read_spec
from embedder.model import Model
from embedder.tokens import TextTokenizer
from tests.embedder.world import Sidecar


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the tiny model."""
    folder = tmp_path_factory.mktemp("models") / "tiny"
    assert build("tiny", folder)
    return folder


@pytest.fixture(scope="session")
def model(tiny: Path) -> Model:
    return Model(tiny)


@pytest.fixture(scope="session")
def tokenizer(tiny: Path) -> TextTokenizer:
    return TextTokenizer(read_spec(tiny))


@pytest.fixture(scope="module")
def sidecar(tiny: Path) -> Iterator[Sidecar]:
    """A server shared by the tests of a module."""
    with Sidecar(tiny) as running:
        yield running
