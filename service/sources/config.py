"""The file that says what a machine syncs: `~/.config/memlane/sync.toml`, or another.

    url = "https://memory.example"
    key_file = "~/.config/memlane/key"

    [[source]]
    path = "~/notes"
    type = "markdown"   # left out: found out
    name = "notes"      # left out: the path's last part

Paths are relative to the file.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from pathlib import Path
from typing import Any, Final

from service.errors import InvalidSetting
from service.sources.known import TYPES

FILE_NAME: Final = "sync.toml"
_TOP: Final = frozenset({"url", "key_file", "source"})
_SOURCE: Final = frozenset({"path", "type", "name"})


@dataclasses.dataclass(frozen=True, slots=True)
class Entry:
    """A source to sync; a missing type is found out, a missing name is the path's last part."""

    path: Path
    type: str | None = None
    name: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Config:
    """What the file says."""

    url: str | None = None
    key_file: Path | None = None
    sources: tuple[Entry, ...] = ()

    def key(self) -> str | None:
        """The key in the key file.

        Raises:
            InvalidSetting: it cannot be read.
        """
        if self.key_file is None:
            return None
        try:
            return self.key_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InvalidSetting(
                f"the key file {self.key_file} cannot be read", hint="Write the key into it."
            ) from error


def default_path() -> Path:
    """Where the file is when nobody says: by the XDG rules."""
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(home, "memlane", FILE_NAME).expanduser()


def state_folder() -> Path:
    """Where the states of syncs are when nobody says: by the XDG rules."""
    home = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(home, "memlane", "sync").expanduser()


def read(path: Path) -> Config:
    """Read a file.

    Raises:
        InvalidSetting: it cannot be read, or says something that has no meaning.
    """
    try:
        told = tomllib.loads(path.read_text())
    except OSError as error:
        raise InvalidSetting(f"{path} cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidSetting(f"{path} is not TOML: {error}") from error
    _only(path, told, _TOP)
    key_file = _text(path, told, "key_file")
    entries = told.get("source", [])
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise InvalidSetting(f"{path}: sources are written as [[source]]")
    return Config(
        url=_text(path, told, "url"),
        key_file=None if key_file is None else _at(path, key_file),
        sources=tuple(_entry(path, each) for each in entries),
    )


def _entry(path: Path, told: dict[str, Any]) -> Entry:
    _only(path, told, _SOURCE)
    where = _text(path, told, "path")
    if where is None:
        raise InvalidSetting(f"{path}: a [[source]] has no `path`")
    kind = _text(path, told, "type")
    if kind is not None and kind not in TYPES:
        raise InvalidSetting(f"{path}: there is no type `{kind}`", hint=", ".join(TYPES))
    return Entry(_at(path, where), kind, _text(path, told, "name"))


def _only(path: Path, told: dict[str, Any], known: frozenset[str]) -> None:
    if unknown := sorted(told.keys() - known):
        raise InvalidSetting(
            f"{path}: `{unknown[0]}` means nothing here", hint=f"Known: {', '.join(sorted(known))}."
        )


def _text(path: Path, told: dict[str, Any], name: str) -> str | None:
    value = told.get(name)
    if value is not None and (not isinstance(value, str) or not value.strip()):
        raise InvalidSetting(f"{path}: `{name}` is not a text")
    return value


def _at(path: Path, where: str) -> Path:
    return path.parent / Path(where).expanduser()
