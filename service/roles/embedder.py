"""The embedding sidecar as a child of `memlane up`: convenient on one machine, not more."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from service.errors import SetupError
from service.replica import Child
from service.serve import check_port
from service.settings import Settings

START_MS = 120_000
"""Loading a model of half a gigabyte from a slow disk is within this."""
CALL_MS = 2_000
POLL_MS = 100
LOG_LINES = 3


def is_address(value: str) -> bool:
    """Is this `host:port`, the address of a sidecar that runs already?"""
    host, _, port = value.rpartition(":")
    return bool(host) and port.isdigit() and "/" not in host


class EmbedderRole:
    """A sidecar on this machine. `start`, `poll` and `stop` belong to one thread."""

    def __init__(self, model: str, *, host: str, port: int, log: Path, settings: Settings) -> None:
        """Prepare.

        Args:
            model: a model folder, or the name of one that `memlane model build` made.
            host: the address to listen on.
            port: the port to listen on.
            log: where its output goes.
            settings: the limits.
        """
        self.address = f"{host}:{port}"
        self._host, self._port = host, port
        self._log = log
        self._settings = settings
        self._child = Child(
            "embedder",
            [sys.executable, "-m", "embedder", "--model", model, "--address", self.address],
            log=log,
            backoff_ms=settings.child_backoff_ms,
        )
        self._model = model

    def start(self) -> None:
        """Bring it up, until it answers.

        Raises:
            SetupError: the port is taken, a package or the model is missing.
        """
        try:
            from service.semantic.sidecar import Sidecar, SidecarError
        except ImportError as error:
            raise SetupError(
                f"{error.name} is not installed",
                hint="Install an extra: `pip install 'memlane[embedder]'`.",
            ) from error
        check_port(self._host, self._port)
        before = self._log.stat().st_size if self._log.exists() else 0
        self._child.start()
        sidecar = Sidecar(self.address, timeout_ms=CALL_MS)
        try:
            deadline = time.monotonic() + START_MS / 1_000
            while self._child.running and time.monotonic() < deadline:
                try:
                    sidecar.info()
                except SidecarError:
                    time.sleep(POLL_MS / 1_000)
                else:
                    return
        finally:
            sidecar.close()
        self.stop()
        raise SetupError(
            f"the sidecar with the model {self._model} did not start: {self._last_words(before)}",
            hint=f"`memlane model build NAME` makes a model; the log is {self._log}.",
        )

    def poll(self) -> None:
        """Look after it; call about every 100 ms."""
        self._child.poll()

    def stop(self) -> None:
        """Let it finish what runs and end."""
        self._child.stop(self._settings.drain_ms)

    def _last_words(self, since: int) -> str:
        told = self._log.read_bytes()[since:].decode(errors="replace").strip()
        return " ".join(told.splitlines()[-LOG_LINES:]) or "it said nothing"
