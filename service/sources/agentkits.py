"""AgentKits' `memory.db`: entries as memory, sessions with prompts and summaries, observations.

Entries that have expired stay in its file and are not read.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import apsw

from service.errors import SetupError
from service.settings import Settings
from service.sources import database
from service.sources.source import Document, Skipped, Unit, one_line, plain, signature
from service.sources.times import now_ms, to_ms

TITLE_CHARS: Final = 160
MINUTE_MS: Final = 60_000
ENTRY: Final = (
    *("id", "key", "content", "type", "namespace", "tags"),
    *("created_at", "updated_at", "expires_at"),
)
SESSION: Final = ("session_id", "project", "prompt", "started_at", "ended_at", "summary", "status")
PROMPT: Final = ("session_id", "prompt_number", "prompt_text", "created_at")
SUMMARY: Final = (
    *("session_id", "request", "completed", "next_steps", "notes"),
    *("decisions", "errors", "created_at"),
)
OBSERVATION: Final = (
    *("id", "session_id", "project", "tool_name", "timestamp", "type", "title", "subtitle"),
    *("narrative", "facts", "concepts", "files_read", "files_modified", "compressed_summary"),
)
Row = dict[str, Any]


class AgentKits:
    """See the module.

    Args:
        path: the file.
        settings: the limits.
        clock: ms since 1970; what has expired by then is left out.
    """

    def __init__(self, path: Path, settings: Settings, clock: Callable[[], int] = now_ms) -> None:
        self.path = path
        self._settings = settings
        self._clock = clock

    def units(self) -> Iterator[Unit | Skipped]:
        """The file. Its signature changes every minute too, since what expires changes no file."""
        log = self.path.with_name(f"{self.path.name}-wal")
        try:
            told = signature(self.path, log)
        except OSError as error:
            raise SetupError(f"{self.path} cannot be read ({error.strerror})") from error
        minute = self._clock() // MINUTE_MS
        yield Unit(self.path.name, None if told is None else f"{told} {minute}")

    def read(self, unit: Unit) -> Iterator[Document | Skipped]:
        """Its documents."""
        try:
            with database.snapshot(self.path, busy_ms=self._settings.sync_busy_ms) as connection:
                there = {
                    table
                    for table in ("memory_entries", "sessions", "observations")
                    if database.columns(connection, table)
                }
                if not there:
                    yield Skipped(unit.name, "", "none of AgentKits' tables is there")
                if "memory_entries" in there:
                    for row in database.rows(connection, "memory_entries", ENTRY):
                        yield from self._entry(unit, row)
                if "sessions" in there:
                    yield from _sessions(unit, connection)
                if "observations" in there:
                    for row in database.rows(connection, "observations", OBSERVATION):
                        yield _observation(unit, row)
        except apsw.Error as error:
            yield Skipped(unit.name, "", database.reason_of(error))

    def _entry(self, unit: Unit, row: Row) -> Iterator[Document | Skipped]:
        if bad := _bad(unit, "memory", row, "id"):
            yield bad
            return
        expires_at = to_ms(row["expires_at"])
        if expires_at is not None and expires_at <= self._clock():
            return
        meta = {"type": row["type"], "namespace": row["namespace"], "tags": _listed(row["tags"])}
        yield Document(
            kind="memory",
            ref=plain(str(row["id"])),
            title=one_line(_text(row["key"]) or _text(row["content"]), TITLE_CHARS),
            note=_text(row["content"]),
            meta=_meta(meta),
            updated_at=to_ms(row["updated_at"]) or to_ms(row["created_at"]),
        )


def _sessions(unit: Unit, connection: apsw.Connection) -> Iterator[Document | Skipped]:
    prompts, bad_prompts = _by_session(unit, connection, "user_prompts", PROMPT)
    summaries, bad_summaries = _by_session(unit, connection, "session_summaries", SUMMARY)
    yield from bad_prompts
    yield from bad_summaries
    for row in database.rows(connection, "sessions", SESSION):
        if bad := _bad(unit, "session", row, "session_id"):
            yield bad
            continue
        typed = sorted(prompts[row["session_id"]], key=lambda each: each["prompt_number"] or 0)
        told = summaries[row["session_id"]]
        texts = [_text(each["prompt_text"]) for each in typed] or [_text(row["prompt"])]
        times = [row["started_at"], row["ended_at"], *(each["created_at"] for each in typed + told)]
        yield Document(
            kind="session",
            ref=plain(str(row["session_id"])),
            title=one_line(_text(row["prompt"]) or texts[0] or _text(row["summary"]), TITLE_CHARS),
            summary="\n".join(filter(None, [_text(row["summary"]), *map(_summary, told)])),
            note="\n\n".join(filter(None, texts)),
            meta=_meta({"project": row["project"], "status": row["status"]}),
            updated_at=max(
                (ms for value in times if (ms := to_ms(value)) is not None), default=None
            ),
        )


def _summary(row: Row) -> str:
    parts = {
        "Request": _text(row["request"]),
        "Completed": _text(row["completed"]),
        "Next": _text(row["next_steps"]),
        "Notes": _text(row["notes"]),
        "Decisions": _listed(row["decisions"]),
        "Errors": _listed(row["errors"]),
    }
    return "\n".join(f"{name}: {text}" for name, text in parts.items() if text)


def _observation(unit: Unit, row: Row) -> Document | Skipped:
    if bad := _bad(unit, "observation", row, "id"):
        return bad
    narrative = _text(row["narrative"])
    parts = [
        narrative or _text(row["compressed_summary"]),
        *(_listed(row[name]) for name in ("facts", "concepts", "files_read", "files_modified")),
    ]
    meta = {"project": row["project"], "tool": row["tool_name"], "type": row["type"]}
    return Document(
        kind="observation",
        ref=plain(str(row["id"])),
        title=one_line(_text(row["title"]) or narrative, TITLE_CHARS),
        summary=_text(row["subtitle"]),
        note="\n".join(filter(None, parts)),
        meta=_meta(meta),
        updated_at=to_ms(row["timestamp"]),
    )


def _by_session(
    unit: Unit, connection: apsw.Connection, table: str, wanted: tuple[str, ...]
) -> tuple[Mapping[object, list[Row]], list[Skipped]]:
    found: dict[object, list[Row]] = defaultdict(list)
    bad = []
    if database.columns(connection, table):
        for number, row in enumerate(database.rows(connection, table, wanted), 1):
            if "error" in row:
                bad.append(Skipped(unit.name, f"{table} {number}", str(row["error"])))
            else:
                found[row["session_id"]].append(row)
    return found, bad


def _bad(unit: Unit, kind: str, row: Row, name: str) -> Skipped | None:
    where = f"{kind} {row[name]}"
    if "error" in row:
        names = (kind, row[name]) if isinstance(row[name], str) else None
        return Skipped(unit.name, where, str(row["error"]), names)
    if row[name] is None or not str(row[name]).strip():
        return Skipped(unit.name, where, f"`{name}` is missing")
    return None


def _text(value: object) -> str:
    return plain(value).strip() if isinstance(value, str) else ""


def _listed(value: object) -> str:
    """A JSON list of strings as one text; anything else as it stands."""
    text = _text(value)
    try:
        items = json.loads(text)
    except ValueError:
        return text
    return ", ".join(map(str, items)) if isinstance(items, list) else ""


def _meta(fields: Mapping[str, object]) -> str:
    return " ".join(f"{name}:{plain(str(value))}" for name, value in fields.items() if value)
