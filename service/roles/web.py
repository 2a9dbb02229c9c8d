"""A gunicorn child of a role, and waiting until it answers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import httpx

from service.errors import Unavailable
from service.replica import Child
from service.serve import ENVIRONMENT, ServeOptions, check_port
from service.settings import Settings

POLL_MS = 50


def web_child(name: str, options: ServeOptions, *, log: Path, settings: Settings) -> Child:
    """A child that serves an application; it is not started yet.

    Raises:
        SetupError: the port is taken.
    """
    check_port(options.host, options.port)
    return Child(
        name,
        [sys.executable, "-m", "service.serve"],
        log=log,
        backoff_ms=settings.child_backoff_ms,
        environ=os.environ | {ENVIRONMENT: options.to_json()},
    )


def wait_answering(
    url: str, path: str, *, timeout_ms: int, poll: Callable[[], object], log: Path
) -> None:
    """Wait until `path` answers 200, calling `poll` meanwhile.

    Raises:
        Unavailable: not in time; the hint names the log.
    """
    deadline = time.monotonic() + timeout_ms / 1_000
    last = "no answer"
    while time.monotonic() < deadline:
        poll()
        try:
            answer = httpx.get(url + path, timeout=2.0, trust_env=False)
            if answer.status_code == httpx.codes.OK:
                return
            last = f"{answer.status_code} {answer.text[:300]}"
        except httpx.HTTPError as error:
            last = type(error).__name__
        time.sleep(POLL_MS / 1_000)
    raise Unavailable(
        f"{url}{path} did not answer in {timeout_ms} ms: {last}", hint=f"Read {log} for the cause."
    )
