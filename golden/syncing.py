"""What syncing a corpus costs: first, unchanged, and with a hundredth changed or deleted."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import orjson

from golden import judged
from memlane import Client
from service.errors import SetupError
from service.settings import Settings
from service.sources.ndjson import Ndjson
from service.sources.state import State
from service.sources.sync import Sync

EVERY: Final = 100
"""One document in so many is changed, another one deleted."""
STOP_S: Final = 60.0
_AGO_S: Final = 3_600
Progress = Callable[[int], None]


def run(corpus: Path, *, progress: Progress = lambda _: None) -> dict[str, dict[str, float]]:
    """Sync a corpus as NDJSON to a service that this starts: writer, Litestream, reader.

    The file's time lies an hour back, as a file's does that was not changed just now.

    Args:
        corpus: the documents.
        progress: told after each of the four syncs.

    Returns:
        `{"first", "unchanged", "changed_1pct", "deleted_1pct": {"bytes_sent", "bytes_received",
        "seconds"}}`: bytes of HTTP as the machine sends and gets them, and wall time.

    Raises:
        SetupError: the corpus cannot be read, or the service does not start.
        memlane.MemlaneError: the service did not answer, or with an error.
    """
    documents = [orjson.loads(line) for line in judged.documents(corpus)]
    folder = Path(tempfile.mkdtemp(prefix="memlane-sync-"))
    report = {}
    try:
        with _hosted(folder) as (url, key):
            for number, (name, held) in enumerate(_steps(documents)):
                path = _written(folder / "memory.ndjson", held, number)
                report[name] = _measured(path, folder, url, key)
                progress(1)
            _check(url, key, held)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return report


def _steps(documents: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    yield "first", documents
    yield "unchanged", documents
    for number in range(0, len(documents), EVERY):
        document = documents[number]
        at = document.pop("updatedAt", document.pop("updated_at", 0))
        note = f"{document.get('note', '')}\nedited"
        documents[number] = document | {"note": note, "updated_at": at + 1}
    yield "changed_1pct", documents
    yield "deleted_1pct", [each for n, each in enumerate(documents) if n % EVERY != 1]


def _measured(path: Path, folder: Path, url: str, key: str) -> dict[str, float]:
    settings = Settings()
    begun = time.monotonic()
    with (
        Client(url, key) as client,
        State(folder / "state" / "bench.sqlite", "bench") as state,
    ):
        syncing = Sync(Ndjson(path, settings), client, state, settings)
        syncing.carry_out(syncing.plan(client.manifest()))
        seconds = time.monotonic() - begun
        return {
            "bytes_sent": client.traffic.bytes_sent,
            "bytes_received": client.traffic.bytes_received,
            "seconds": round(seconds, 3),
        }


def _written(path: Path, documents: Sequence[dict[str, Any]], number: int) -> Path:
    path.write_bytes(b"".join(orjson.dumps(each) + b"\n" for each in documents))
    moment = time.time() - _AGO_S + (number if number > 1 else 0)
    os.utime(path, (moment, moment))
    return path


def _check(url: str, key: str, documents: Sequence[dict[str, Any]]) -> None:
    """See that all arrived: a fast sync of less would be no figure."""
    wanted = len({(each["kind"], each["ref"]) for each in documents})
    with Client(url, key) as client:
        found = client.manifest()["documents"]
    if found != wanted:
        raise SetupError(f"the service holds {found} documents instead of {wanted}")


@contextlib.contextmanager
def _hosted(folder: Path) -> Iterator[tuple[str, str]]:
    """A service of its own; the writer's address and a key."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "service", "up", "--json"),
            *("--data", str(folder / "data"), "--port", str(_free_ports())),
        ],
        stdout=subprocess.PIPE,
        stderr=(folder / "up.log").open("wb"),
        start_new_session=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            told = (folder / "up.log").read_text(errors="replace").splitlines()[-3:]
            raise SetupError(f"the service did not start: {' '.join(told)}")
        told_all = json.loads(line)
        yield told_all["writer_url"], told_all["key"]
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)


def _free_ports() -> int:
    """A port whose two successors are free too."""
    while True:
        with contextlib.ExitStack() as held:
            first = held.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            try:
                for more in (1, 2):
                    held.enter_context(socket.socket()).bind(("127.0.0.1", port + more))
            except (OSError, OverflowError):
                continue
            return port
