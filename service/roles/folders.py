"""What lies where in a data folder, and what must be kept of it.

<data>/secret            what keys are hashed with; copy it to every reader
<data>/operator.key      the first operator key, for the CLI on this machine
<data>/node.json         addresses of the running roles, for the CLI on this machine
<data>/store/            the object store, unless another is given
<data>/writer/           the writer's files (see replica/names.py)
<data>/reader/           a reader's cache, disposable
<data>/registry/         the registry as other shards' writers follow it, disposable
"""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path
from typing import Any

import orjson

from service.errors import SetupError


@dataclasses.dataclass(frozen=True, slots=True)
class Folders:
    """Paths below one data folder."""

    data: Path

    def __post_init__(self) -> None:
        # Children run with these paths, and Litestream answers with absolute ones.
        object.__setattr__(self, "data", self.data.absolute())

    @property
    def secret(self) -> Path:
        """What keys are hashed with."""
        return self.data / "secret"

    @property
    def operator_key(self) -> Path:
        """The first operator key."""
        return self.data / "operator.key"

    @property
    def node(self) -> Path:
        """What the running roles note of themselves."""
        return self.data / "node.json"

    @property
    def store(self) -> Path:
        """The object store, unless another is given."""
        return self.data / "store"

    @property
    def reader(self) -> Path:
        """A reader's cache."""
        return self.data / "reader"

    @property
    def registry(self) -> Path:
        """The registry as a writer of another shard than `main` follows it; disposable."""
        return self.data / "registry"

    @property
    def writer(self) -> Path:
        """The writer's files."""
        return self.data / "writer"


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only this user can read, whole or not at all.

    Raises:
        SetupError: it cannot be written.
    """
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)
        draft.replace(path)
    except OSError as error:
        raise SetupError(
            f"{path} cannot be written ({error.strerror})",
            hint="Give this role a data folder it may write to.",
        ) from error


def read_node(folders: Folders) -> dict[str, Any]:
    """What the running roles noted of themselves; empty when none runs here."""
    try:
        noted = orjson.loads(folders.node.read_bytes())
    except (FileNotFoundError, orjson.JSONDecodeError):
        return {}
    return noted if isinstance(noted, dict) else {}


def note_node(folders: Folders, **facts: Any) -> None:
    """Add to what the running roles note of themselves."""
    write_private(folders.node, orjson.dumps(read_node(folders) | facts) + b"\n")
