"""An embedding sidecar for the time of a run."""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager

from service.errors import SetupError
from service.semantic.sidecar import Sidecar, SidecarError

START_S = 180.0
STOP_S = 20.0
CALL_MS = 5_000


@contextmanager
def running(model: str) -> Iterator[str]:
    """The address of a sidecar with this model, started here and stopped afterwards.

    Args:
        model: a folder, or the name of one that `memlane model build` made.

    Raises:
        SetupError: it does not start.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "embedder", "--model", model, "--address", address],
            stdout=told,
            stderr=told,
        )
        try:
            _wait(process, address, model)
            yield address
        except SetupError as error:
            told.seek(0)
            last = told.read().strip().splitlines()[-3:]
            raise SetupError(f"{error.detail}: {' '.join(last)}", hint=error.hint) from error
        finally:
            process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait(process: subprocess.Popen[bytes], address: str, model: str) -> None:
    sidecar = Sidecar(address, timeout_ms=CALL_MS)
    deadline = time.monotonic() + START_S
    try:
        while time.monotonic() < deadline and process.poll() is None:
            try:
                sidecar.info()
            except SidecarError:
                time.sleep(0.2)
            else:
                return
    finally:
        sidecar.close()
    raise SetupError(
        f"the sidecar with the model {model} did not start",
        hint="`memlane model build NAME` makes a model, `memlane model check` looks at one.",
    )
