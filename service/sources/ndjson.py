"""A file of NDJSON, plain or gzip: one document a line, as `memlane push` takes them.

A line `{"op": "delete", ...}` takes back what an earlier line said.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from service.errors import SetupError
from service.settings import Settings
from service.sources.lines import BadLine, numbered, open_lines, parse
from service.sources.source import Document, Skipped, Unit, plain, signature
from service.sources.times import LAST_MS

TEXTS: Final = ("title", "summary", "note", "meta")
FIELDS: Final = frozenset(
    {"op", "kind", "ref", *TEXTS, "updated_at", "updatedAt", "identifiers", "vectors", "if_newer"}
)
NAME_CHARS: Final = 40


class Ndjson:
    """See the module."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings

    def units(self) -> Iterator[Unit | Skipped]:
        """The file."""
        try:
            yield Unit(self.path.name, signature(self.path))
        except OSError as error:
            raise SetupError(f"{self.path} cannot be read ({error.strerror})") from error

    def read(self, unit: Unit) -> Iterator[Document | Skipped]:
        """Its documents."""
        deleted = self._deleted_last()
        try:
            with open_lines(self.path) as file:
                for number, line, whole in numbered(file, self._settings.sync_line_bytes):
                    found = _read(unit, number, line, whole)
                    if isinstance(found, Skipped) or (
                        found is not None and deleted.get((found.kind, found.ref), 0) < number
                    ):
                        yield found
        except (OSError, EOFError, zlib.error) as error:
            yield Skipped(unit.name, "", f"its end cannot be read ({type(error).__name__})")

    def _deleted_last(self) -> dict[tuple[str, str], int]:
        """The number of the last line that deletes a document, by kind and ref."""
        found: dict[tuple[str, str], int] = {}
        try:
            with open_lines(self.path) as file:
                for number, line, whole in numbered(file, self._settings.sync_line_bytes):
                    if line is None or b'"delete"' not in line:
                        continue
                    try:
                        value = parse(line, whole=whole)
                    except BadLine:
                        continue
                    kind, ref = value.get("kind"), value.get("ref")
                    if value.get("op") == "delete" and isinstance(kind, str):
                        found[kind, str(ref)] = number
        except (OSError, EOFError, zlib.error):
            pass  # told by the reading that follows
        return found


def _read(unit: Unit, number: int, line: bytes | None, whole: bool) -> Document | Skipped | None:
    where = f"line {number}"
    if line is None:
        return Skipped(unit.name, where, "longer than a document may be")
    try:
        value = parse(line, whole=whole)
        return None if value.get("op") == "delete" else _document(value)
    except BadLine as error:
        return Skipped(unit.name, where, str(error))


def _document(value: dict[str, Any]) -> Document:
    if unknown := sorted(value.keys() - FIELDS):
        shown = unknown[0] if unknown[0].isidentifier() and len(unknown[0]) <= NAME_CHARS else ""
        raise BadLine(f"unknown field {shown}".rstrip())
    updated_at = value.get("updated_at", value.get("updatedAt"))
    if updated_at is not None and (
        not isinstance(updated_at, int) or not 0 <= updated_at <= LAST_MS
    ):
        raise BadLine("`updated_at` is not a time in milliseconds since 1970")
    identifiers = value.get("identifiers") or []
    if not isinstance(identifiers, list) or not all(isinstance(i, str) for i in identifiers):
        raise BadLine("`identifiers` is not a list of strings")
    for name in ("kind", "ref"):
        if not isinstance(value.get(name), str) or not value[name].strip():
            raise BadLine(f"`{name}` is missing or blank")
    for name in TEXTS:
        if not isinstance(value.get(name) or "", str):
            raise BadLine(f"`{name}` is not a string")
    texts = {name: plain(value.get(name) or "") for name in TEXTS}
    return Document(
        kind=plain(value["kind"]),
        ref=plain(value["ref"]),
        updated_at=updated_at,
        identifiers=tuple(sorted({plain(each) for each in identifiers})),
        vectors=value["vectors"] if isinstance(value.get("vectors"), dict) else None,
        title=texts["title"],
        summary=texts["summary"],
        note=texts["note"],
        meta=texts["meta"],
    )
