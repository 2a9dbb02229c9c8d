"""Session transcripts of Claude Code: a session a file, one JSON object a line.

The ref is the file's name without its suffix. A long session becomes several documents, cut so that
those before the last never change while the session goes on. What agents think to themselves and
what is unknown is left out; long results of tools are cut.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from service.errors import SetupError
from service.settings import Settings
from service.sources.files import units_of
from service.sources.lines import BadLine, numbered, open_lines, parse
from service.sources.source import Document, Skipped, Unit, one_line, plain, signature
from service.sources.times import to_ms

KIND: Final = "session"
SUFFIX: Final = ".jsonl"
TITLE_CHARS: Final = 160
TOOL_INPUT_CHARS: Final = 600
TOOL_RESULT_CHARS: Final = 1_500
LINE_BYTES: Final = 32 * 1024 * 1024
"""A line may hold an image; longer ones are skipped."""


class ClaudeCode:
    """See the module; the path is a folder, such as `~/.claude/projects`, or one file."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self._settings = settings

    def units(self) -> Iterator[Unit | Skipped]:
        """Its transcripts."""
        if self.path.is_file():
            yield Unit(self.path.name, signature(self.path))
            return
        seen: dict[str, str] = {}
        for unit in units_of(
            self.path,
            (SUFFIX,),
            most_files=self._settings.sync_files,
            most_bytes=self._settings.sync_file_bytes,
        ):
            if isinstance(unit, Unit):
                first = seen.setdefault(Path(unit.name).stem, unit.name)
                if first != unit.name:
                    yield Skipped(unit.name, "", f"the session of {first} again")
                    continue
            yield unit

    def read(self, unit: Unit) -> Iterator[Document | Skipped]:
        """The documents of a transcript."""
        path = self.path if self.path.is_file() else self.path / unit.name
        session = _Session(self._settings.sync_note_bytes)
        try:
            with open_lines(path) as file:
                for number, line, whole in numbered(file, LINE_BYTES):
                    try:
                        if line is None:
                            raise BadLine("longer than is read")
                        session.take(parse(line, whole=whole))
                    except BadLine as error:
                        yield Skipped(unit.name, f"line {number}", str(error))
        except (OSError, SetupError) as error:
            yield Skipped(unit.name, "", f"cannot be read ({type(error).__name__})")
            return
        yield from session.documents(Path(unit.name).stem)


@dataclasses.dataclass(slots=True)
class _Part:
    texts: list[str] = dataclasses.field(default_factory=list)
    bytes: int = 0
    updated_at: int | None = None


class _Session:
    """A transcript as it is read."""

    def __init__(self, part_bytes: int) -> None:
        self._part_bytes = part_bytes
        self._parts = [_Part()]
        self._title = ""
        self._prompt = ""
        self._summaries: list[str] = []
        self._meta: dict[str, str] = {}

    def take(self, line: dict[str, Any]) -> None:
        """Read one line; those of unknown types say nothing."""
        kind = line.get("type")
        if kind == "summary" and isinstance(line.get("summary"), str):
            self._summaries.append(plain(line["summary"]))
        elif kind in ("custom-title", "ai-title"):
            title = line.get("customTitle") or line.get("aiTitle") or line.get("title")
            if isinstance(title, str):
                self._title = plain(title)
        elif kind in ("user", "assistant"):
            self._note_meta(line)
            if line.get("isMeta"):
                return
            message = line.get("message")
            content = message.get("content") if isinstance(message, dict) else None
            for text in _texts("User" if kind == "user" else "Assistant", content):
                self._add(plain(text), to_ms(line.get("timestamp")))
            if kind == "user" and not self._prompt:
                self._prompt = _prompt(content)

    def documents(self, stem: str) -> Iterator[Document]:
        """What it became; nothing for a file without messages."""
        summary = self._summaries[-1] if self._summaries else ""
        title = one_line(self._title or summary or self._prompt or stem, TITLE_CHARS)
        parts = [part for part in self._parts if part.texts]
        meta = " ".join(f"{name}:{value}" for name, value in self._meta.items())
        for number, part in enumerate(parts, 1):
            later = number > 1
            yield Document(
                kind=KIND,
                ref=f"{stem}#{number}" if later else stem,
                title=f"{title} ({number})" if later else title,
                summary="" if later or summary == title else summary,
                note="\n\n".join(part.texts),
                meta=meta,
                updated_at=part.updated_at,
            )

    def _note_meta(self, line: dict[str, Any]) -> None:
        for name, field in (("project", "cwd"), ("branch", "gitBranch")):
            value = line.get(field)
            if isinstance(value, str) and value:
                self._meta.setdefault(name, plain(value)[:300])

    def _add(self, text: str, at: int | None) -> None:
        """Add a text; one longer than a part is cut into several."""
        most = self._part_bytes // 4  # characters that fit in any script
        for begin in range(0, len(text), most):
            piece = text[begin : begin + most]
            size = len(piece.encode()) + 2
            part = self._parts[-1]
            if part.texts and part.bytes + size > self._part_bytes:
                # A part keeps a time of its own, also when this line has none.
                part = _Part(updated_at=part.updated_at)
                self._parts.append(part)
            part.texts.append(piece)
            part.bytes += size
            if at is not None:
                part.updated_at = max(part.updated_at or 0, at)


def _texts(who: str, content: object) -> Iterator[str]:
    if isinstance(content, str):
        if content.strip():
            yield f"{who}: {content.strip()}"
        return
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind == "text" and isinstance(block.get("text"), str) and block["text"].strip():
            yield f"{who}: {block['text'].strip()}"
        elif kind == "tool_use":
            told = orjson.dumps(block.get("input", {}), default=str).decode()
            yield f"Tool {block.get('name', '')}: {_cut(told, TOOL_INPUT_CHARS)}"
        elif kind == "tool_result" and (told := _plain_result(block.get("content"))):
            yield f"Result: {_cut(told, TOOL_RESULT_CHARS)}"


def _plain_result(content: object) -> str:
    if isinstance(content, str):
        return content.strip()
    blocks = content if isinstance(content, list) else []
    texts = [str(b["text"]) for b in blocks if isinstance(b, dict) and "text" in b]
    return "\n".join(texts).strip()


def _prompt(content: object) -> str:
    """The first thing that a person typed; what stands in angle brackets, a program wrote."""
    for text in _texts("", content):
        typed = text.removeprefix(": ").strip()
        if text.startswith(": ") and not typed.startswith("<"):
            return plain(typed)
    return ""


def _cut(text: str, most_chars: int) -> str:
    return text if len(text) <= most_chars else f"{text[:most_chars]}…"
