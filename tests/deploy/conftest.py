"""Programs that no Python package brings; without them, tests that need them say so."""

from __future__ import annotations

import shutil

import pytest


@pytest.fixture(scope="session")
def installed() -> None:
    """Prometheus and promtool are here."""
    for program in ("promtool", "prometheus"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: apt-get install prometheus")
