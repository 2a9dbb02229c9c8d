"""What tests of several folders share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from unittest import mock

import pytest

from golden.fleet.objects import S3


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A real S3-compatible server for the session, its credentials in the environment."""
    server = S3(tmp_path_factory.mktemp("s3") / "server")
    try:
        server.start()
        with mock.patch.dict(os.environ, server.environ):
            yield server
    finally:
        server.stop()
