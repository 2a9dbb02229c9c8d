"""What a source is: units that are read one by one, each giving documents or what was skipped."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from memlane.digests import content_hash, key_of

FORMAT: Final = 1
"""Grows when a source makes other documents of the same files: all are read anew then."""
_RACY_NS: Final = 2_000_000_000
"""A file changed so recently may change again without its time or size telling."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a source holds; `updated_at` is ms since 1970, None when the source does not know."""

    kind: str
    ref: str
    title: str = ""
    summary: str = ""
    note: str = ""
    meta: str = ""
    updated_at: int | None = None
    identifiers: tuple[str, ...] = ()
    vectors: dict[str, Any] | None = None
    """As the service takes them with a line; of no account for whether the document changed."""

    @property
    def key(self) -> bytes:
        """Its key in the manifest."""
        return key_of(self.kind, self.ref)

    def content_hash(self) -> bytes:
        """Its content hash in the manifest."""
        return content_hash(
            title=self.title,
            summary=self.summary,
            note=self.note,
            meta=self.meta,
            identifiers=self.identifiers,
        )

    def line(self, updated_at: int) -> bytes:
        """The line that carries it, to be stored over what is older."""
        fields: dict[str, object] = {
            "kind": self.kind,
            "ref": self.ref,
            "updated_at": updated_at,
            "if_newer": True,
        }
        texts = {"title", "summary", "note", "meta"}
        fields |= {name: text for name in sorted(texts) if (text := getattr(self, name))}
        if self.identifiers:
            fields["identifiers"] = list(self.identifiers)
        if self.vectors:
            fields["vectors"] = self.vectors
        return orjson.dumps(fields)


@dataclasses.dataclass(frozen=True, slots=True)
class Skipped:
    """Something that could not be read. Nothing of its unit is taken for deleted.

    Attributes:
        unit: a unit's name; one that ends with a slash stands for all units below it.
        where: in the unit: a line, a row; empty for all of it.
        reason: in words, without any of its text.
        names: kind and ref of the one document that it is, if that is known.
    """

    unit: str
    where: str
    reason: str
    names: tuple[str, str] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """A part of a source that is read as a whole: a file, a database.

    Attributes:
        name: the same at every run.
        signature: changes when the unit does; None when that cannot be told.
    """

    name: str
    signature: str | None


class Source(Protocol):
    """A place on this machine that documents come from."""

    path: Path

    def units(self) -> Iterator[Unit | Skipped]:
        """What there is now.

        Raises:
            SetupError: the source is not there, or is not what it should be.
        """

    def read(self, unit: Unit) -> Iterator[Document | Skipped]:
        """The documents of a unit; of several with one kind and ref, the last counts."""


def signature(*paths: Path) -> str | None:
    """What tells that files changed: their times and sizes. None right after a change.

    Raises:
        OSError: the first one is not there.
    """
    told = []
    for number, path in enumerate(paths):
        try:
            stat = path.stat()
        except FileNotFoundError:
            if number == 0:
                raise
            continue
        if time.time_ns() - stat.st_mtime_ns < _RACY_NS:
            return None
        told.append(f"{stat.st_mtime_ns}:{stat.st_size}")
    return f"{FORMAT} {' '.join(told)}"


def plain(text: str) -> str:
    """A text without what the service refuses: NUL characters and lone surrogates."""
    if "\0" in text:
        text = text.replace("\0", " ")
    if text.isascii():
        return text
    return text.encode("utf-8", "replace").decode()


def one_line(text: str, most_chars: int) -> str:
    """A text's first line that is not blank, cut; for titles."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return line if len(line) <= most_chars else f"{line[: most_chars - 1].rstrip()}…"
