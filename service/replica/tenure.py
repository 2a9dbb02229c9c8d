"""One ownership of a shard, and what a data folder remembers of the last one it had.

    <data>/writer/owner.json   {"folder": "<random>", "inode": 123, "term": 7}

An owner's name is `<folder>/<process>`, both random. The first half lives as long as the data
folder, so that a writer that crashed and comes back on its own folder is known at once; the second
as long as the supervising process. `term` is the last ownership under which every file of the
folder was brought in order. The inode tells a copy of a folder from the folder: a copy that went
on under the same name would write into the prefixes of the original.
"""

from __future__ import annotations

import dataclasses
import secrets
from pathlib import Path

import orjson

from service.errors import SetupError

NAME_BYTES = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Tenure:
    """One ownership of a shard: `term` grows with each, so it also orders what owners write."""

    term: int
    owner: str


#: Of a writer that nobody contends with: nothing is fenced.
UNFENCED = Tenure(0, "")


def folder_of(owner: str) -> str:
    """The data folder's half of an owner's name."""
    return owner.partition("/")[0]


@dataclasses.dataclass(frozen=True, slots=True)
class FolderNote:
    """What a data folder remembers: its own name and its last complete term."""

    folder: str
    term: int

    def new_owner(self) -> str:
        """A name for this process as owner."""
        return f"{self.folder}/{secrets.token_hex(NAME_BYTES)}"


def read_note(data: Path) -> FolderNote:
    """Read a data folder's note; the first time, or in a copy, a fresh one is made.

    Raises:
        SetupError: the folder cannot be written.
    """
    path = _path(data)
    try:
        raw = orjson.loads(path.read_bytes())
        if raw["inode"] == path.parent.stat().st_ino:
            return FolderNote(str(raw["folder"]), int(raw["term"]))
    except (FileNotFoundError, orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        pass  # nothing known is the safe answer: every file then moves to a new epoch
    note = FolderNote(secrets.token_hex(NAME_BYTES), 0)
    _write(path, note)
    return note


def note_term(data: Path, tenure: Tenure) -> None:
    """Remember that every file of the folder is in order under this ownership.

    Raises:
        SetupError: the folder cannot be written.
    """
    _write(_path(data), FolderNote(folder_of(tenure.owner), tenure.term))


def _path(data: Path) -> Path:
    return data / "writer" / "owner.json"


def _write(path: Path, note: FolderNote) -> None:
    draft = path.with_name(f".{path.name}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        inode = path.parent.stat().st_ino
        draft.write_bytes(orjson.dumps(dataclasses.asdict(note) | {"inode": inode}))
        draft.replace(path)
    except OSError as error:
        raise SetupError(f"cannot write {path}: {error.strerror}") from error
