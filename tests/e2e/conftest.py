from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.service import Service


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One `memlane up` that well-behaved tests share, each with a tenant of its own."""
    running = Service(tmp_path_factory.mktemp("service"))
    yield running
    assert running.stop() == 0
