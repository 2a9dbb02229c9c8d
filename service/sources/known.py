"""The kinds of sources by name, and which of them a path is."""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import Final

import apsw
import orjson

from service.errors import SetupError
from service.settings import Settings
from service.sources import database
from service.sources.agentkits import AgentKits
from service.sources.claude_code import ClaudeCode
from service.sources.markdown import SUFFIXES, Markdown
from service.sources.ndjson import Ndjson
from service.sources.open_walnut import OpenWalnut
from service.sources.source import Source

TYPES: Final = ("ndjson", "markdown", "claude-code", "open-walnut", "agentkits")
_SQLITE: Final = b"SQLite format 3\0"
_LOOKED_AT: Final = 5_000
"""So many files are looked at to tell what a folder is."""


def open_source(kind: str, path: Path, name: str, settings: Settings) -> Source:
    """A source of a known kind.

    Raises:
        SetupError: there is no such kind, or nothing at the path.
    """
    if not path.exists():
        raise SetupError(f"{path} is not there", hint="Check the path.")
    match kind:
        case "ndjson":
            return Ndjson(path, settings)
        case "markdown":
            return Markdown(path, name, settings)
        case "claude-code":
            return ClaudeCode(path, settings)
        case "open-walnut":
            return OpenWalnut(path, settings)
        case "agentkits":
            return AgentKits(path, settings)
    raise SetupError(f"there is no kind of source `{kind}`", hint=f"Known: {', '.join(TYPES)}.")


def guess(path: Path, settings: Settings) -> str:
    """Which kind of source a path is.

    Raises:
        SetupError: none that is known.
    """
    try:
        found = _of_folder(path) if path.is_dir() else _of_file(path, settings)
    except OSError as error:
        raise SetupError(f"{path} cannot be read ({error.strerror})") from error
    if found is None:
        raise SetupError(
            f"it is not clear what {path} is", hint=f"Say so with --type: {', '.join(TYPES)}."
        )
    return found


def _of_folder(path: Path) -> str | None:
    looked = 0
    for _, _, files in os.walk(path):
        if any(name.endswith(".jsonl") for name in files):
            return "claude-code"
        if any(name.lower().endswith(SUFFIXES) for name in files):
            return "markdown"
        looked += len(files)
        if looked > _LOOKED_AT:
            return None
    return None


def _of_file(path: Path, settings: Settings) -> str | None:
    with path.open("rb") as file:
        head = file.read(64 * 1024)
    if head.startswith(_SQLITE):
        return _of_database(path, settings)
    if head.startswith(b"\x1f\x8b"):
        with gzip.open(path, "rb") as unpacked:
            head = unpacked.read(64 * 1024)
    try:
        first = orjson.loads(head.lstrip().split(b"\n", 1)[0])
    except orjson.JSONDecodeError:
        # A first line that is longer than what was read tells nothing; the name does.
        return "claude-code" if path.suffix == ".jsonl" else _by_name(path)
    if not isinstance(first, dict):
        return None
    return "ndjson" if {"kind", "ref"} <= first.keys() else "claude-code"


def _by_name(path: Path) -> str | None:
    return "ndjson" if ".ndjson" in path.suffixes else None


def _of_database(path: Path, settings: Settings) -> str | None:
    try:
        with database.snapshot(path, busy_ms=settings.sync_busy_ms) as connection:
            if {"kind", "ref"} <= database.columns(connection, "doc"):
                return "open-walnut"
            if any(
                database.columns(connection, table)
                for table in ("memory_entries", "observations", "user_prompts")
            ):
                return "agentkits"
    except apsw.Error as error:
        raise SetupError(
            f"{path}: {database.reason_of(error)}", hint="Say what it is with --type."
        ) from error
    return None
