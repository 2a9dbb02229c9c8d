"""A folder of Markdown: a document a file, its ref the folder's name and the path in it.

Front matter may give `title`, `description`, `tags` and `updated`. `SKILL.md` is a skill;
`MEMORY.md`, `CLAUDE.md` and `AGENTS.md` are memory; the rest are notes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from service.settings import Settings
from service.sources.files import or_skipped, ref_of, units_of
from service.sources.source import Document, Skipped, Unit, one_line, plain
from service.sources.times import to_ms

SUFFIXES: Final = (".md", ".markdown", ".mdx")
KINDS: Final[Mapping[str, str]] = {
    "SKILL.MD": "skill",
    "MEMORY.MD": "memory",
    "CLAUDE.MD": "memory",
    "AGENTS.MD": "memory",
}
TITLE_CHARS: Final = 200
_FRONT: Final = re.compile(r"\A---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_FIELD: Final = re.compile(r"^([A-Za-z_-]+):[ \t]*(.*?)[ \t]*$", re.MULTILINE)
_HEADING: Final = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$", re.MULTILINE)


class Markdown:
    """See the module.

    Args:
        path: the folder.
        name: what its refs begin with.
        settings: the limits.
    """

    def __init__(self, path: Path, name: str, settings: Settings) -> None:
        self.path = path
        self._name = name
        self._settings = settings

    def units(self) -> Iterator[Unit | Skipped]:
        """Its files."""
        # Half of what a line may hold: JSON writes some characters with several.
        most = min(self._settings.sync_file_bytes, self._settings.sync_line_bytes // 2)
        yield from units_of(
            self.path, SUFFIXES, most_files=self._settings.sync_files, most_bytes=most
        )

    def read(self, unit: Unit) -> Iterator[Document | Skipped]:
        """The document of a file."""
        path = self.path / unit.name
        raw = or_skipped(unit, path.read_bytes)
        if isinstance(raw, Skipped):
            yield raw
            return
        try:
            text = raw.decode("utf-8-sig")
        except UnicodeDecodeError:
            yield Skipped(unit.name, "", "not UTF-8")
            return
        try:
            mtime_ms = path.stat().st_mtime_ns // 1_000_000
        except OSError as error:
            yield Skipped(unit.name, "", f"cannot be read ({error.strerror})")
            return
        yield self._document(unit, plain(text.replace("\r\n", "\n")), mtime_ms)

    def _document(self, unit: Unit, text: str, mtime_ms: int) -> Document:
        front = _FRONT.match(text)
        fields = _fields(front.group(1)) if front else {}
        body = text[front.end() :] if front else text
        heading = _HEADING.search(body)
        title = fields.get("title") or fields.get("name") or (heading.group(1) if heading else "")
        updated = to_ms(fields.get("updated") or fields.get("updated_at"))
        tags = fields.get("tags", "").strip("[]")
        return Document(
            kind=KINDS.get(Path(unit.name).name.upper(), "note"),
            ref=f"{self._name}/{ref_of(unit.name)}",
            title=one_line(title or Path(unit.name).stem, TITLE_CHARS),
            summary=fields.get("description", ""),
            note=body.strip(),
            meta=f"tags: {tags}" if tags else "",
            updated_at=mtime_ms if updated is None else updated,
        )


def _fields(front: str) -> dict[str, str]:
    """The plain fields of front matter; nested ones are not needed here."""
    found = {}
    for name, value in _FIELD.findall(front):
        found[name.lower()] = value.strip("\"'")
    return found
