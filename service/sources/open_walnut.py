"""Open Walnut's `search.sqlite`: kinds, refs, texts and times as they are.

Its identifiers travel where the texts do not hold them anyway. Its vectors do not: they are of
passages cut by another policy than ours, and are made again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import apsw

from service.errors import SetupError
from service.settings import Settings
from service.sources import database
from service.sources.source import Document, Skipped, Unit, plain, signature
from service.sources.times import to_ms

NEEDED: Final = frozenset({"id", "kind", "ref", "title", "updated_at"})
WANTED: Final = ("id", "kind", "ref", "title", "summary", "note", "meta", "updated_at")
IDENTIFIERS_MOST: Final = 256
IDENTIFIER_BYTES: Final = 256


class OpenWalnut:
    """See the module."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings

    def units(self) -> Iterator[Unit | Skipped]:
        """The file."""
        log = self.path.with_name(f"{self.path.name}-wal")
        try:
            yield Unit(self.path.name, signature(self.path, log))
        except OSError as error:
            raise SetupError(f"{self.path} cannot be read ({error.strerror})") from error

    def read(self, unit: Unit) -> Iterator[Document | Skipped]:
        """Its documents."""
        try:
            with database.snapshot(self.path, busy_ms=self._settings.sync_busy_ms) as connection:
                missing = NEEDED - database.columns(connection, "doc")
                if missing:
                    yield Skipped(unit.name, "", f"no column `{min(missing)}` in a table `doc`")
                    return
                identifiers = _identifiers(connection)
                for row in database.rows(connection, "doc", WANTED, order="id"):
                    yield _document(unit, row, identifiers.get(row["id"], ()))
        except apsw.Error as error:
            yield Skipped(unit.name, "", database.reason_of(error))


def _document(unit: Unit, row: dict[str, Any], tokens: tuple[str, ...]) -> Document | Skipped:
    where = f"doc {row['id']}"
    named = isinstance(row["kind"], str) and isinstance(row["ref"], str)
    if "error" in row:
        names = (row["kind"], row["ref"]) if named else None
        return Skipped(unit.name, where, str(row["error"]), names)
    if not named:
        return Skipped(unit.name, where, "`kind` or `ref` is not a text")
    texts = {name: plain(str(row[name] or "")) for name in ("title", "summary", "note", "meta")}
    whole = "\n".join((*texts.values(), row["ref"])).lower()
    return Document(
        kind=plain(row["kind"]),
        ref=plain(row["ref"]),
        title=texts["title"],
        summary=texts["summary"],
        note=texts["note"],
        meta=texts["meta"],
        updated_at=to_ms(row["updated_at"]),
        identifiers=tuple(token for token in tokens if token.lower() not in whole)[
            :IDENTIFIERS_MOST
        ],
    )


def _identifiers(connection: apsw.Connection) -> dict[int, tuple[str, ...]]:
    found: dict[int, set[str]] = defaultdict(set)
    if {"token", "doc_id"} <= database.columns(connection, "ident"):
        for row in database.rows(connection, "ident", ("doc_id", "token")):
            token = row["token"]
            if isinstance(token, str) and 0 < len(token.encode()) <= IDENTIFIER_BYTES:
                found[row["doc_id"]].add(plain(token))
    return {doc_id: tuple(sorted(tokens)) for doc_id, tokens in found.items()}
