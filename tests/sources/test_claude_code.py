from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.settings import Settings
from service.sources.claude_code import ClaudeCode
from service.sources.source import Document, Skipped

Write = Callable[..., Path]
AT = "2026-03-01T10:00:00.000Z"
AT_MS = 1_772_359_200_000


def said(who: str, content: Any, at: str = AT, **more: Any) -> dict[str, Any]:
    return {
        "type": who,
        "message": {"role": who, "content": content},
        "timestamp": at,
        "sessionId": "s",
        "cwd": "/home/me/parcel",
        "gitBranch": "main",
        **more,
    }


SESSION: list[dict[str, Any]] = [
    {"type": "file-history-snapshot", "snapshot": {}},
    {"type": "summary", "summary": "Fix the parcel gateway", "leafUuid": "x"},
    said("user", "<command-name>/clear</command-name>", isMeta=True),
    said("user", "the gateway times out\nplease fix"),
    said(
        "assistant",
        [
            {"type": "thinking", "thinking": "secret thoughts"},
            {"type": "text", "text": "I look at the code."},
            {
                "type": "tool_use",
                "id": "1",
                "name": "Bash",
                "input": {"command": "grep -r timeout"},
            },
        ],
        "2026-03-01T10:00:05.000Z",
    ),
    said(
        "user",
        [
            {
                "type": "tool_result",
                "tool_use_id": "1",
                "content": [{"type": "text", "text": "x" * 9_000}],
            }
        ],
        "2026-03-01T10:00:07.000Z",
    ),
    {"type": "progress", "of": "a later release"},
]


def text(lines: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in lines)


def read(path: Path, **limits: int) -> tuple[list[Document], list[tuple[str, str, str]]]:
    source = ClaudeCode(path, Settings(**limits))
    documents, skipped = [], []
    for unit in source.units():
        for found in [unit] if isinstance(unit, Skipped) else source.read(unit):
            if isinstance(found, Document):
                documents.append(found)
            else:
                skipped.append((found.unit, found.where, found.reason))
    return documents, skipped


def test_a_session_becomes_a_document(write: Write, tmp_path: Path) -> None:
    write("projects/-home-me-parcel/0b1c.jsonl", text(SESSION))
    (document,), skipped = read(tmp_path / "projects")
    assert skipped == []
    assert (document.kind, document.ref) == ("session", "0b1c")
    assert document.title == "Fix the parcel gateway"
    assert document.meta == "project:/home/me/parcel branch:main"
    assert document.updated_at == AT_MS + 7_000
    assert document.note.startswith("User: the gateway times out\nplease fix\n\nAssistant: I look")
    assert 'Tool Bash: {"command":"grep -r timeout"}' in document.note
    assert "Result: xxx" in document.note
    assert "secret thoughts" not in document.note
    assert len(document.note) < 2_000


def test_without_a_summary_the_first_prompt_is_the_title(write: Write) -> None:
    path = write("s.jsonl", text([said("user", "<local-command>x"), *SESSION[3:]]))
    assert read(path)[0][0].title == "the gateway times out"


def test_a_line_half_written_and_other_odd_ones_lose_nothing_else(write: Write) -> None:
    odd = [
        text(SESSION[:4]).encode(),
        b"\xff\xfe\n",
        b"[1]\n",
        text(
            [said("assistant", "after"), said("user", None), said("user", [7, {"type": "image"}])]
        ).encode(),
        b'{"type":"user","message":{"content":"I am being wri',
    ]
    (document,), skipped = read(write("s.jsonl", b"".join(odd)))
    assert document.note.endswith("Assistant: after")
    assert [(where, reason) for _, where, reason in skipped] == [
        ("line 5", "not UTF-8"),
        ("line 6", "not a JSON object"),
        ("line 10", "half-written"),
    ]


def test_a_file_without_messages_is_no_document(write: Write, tmp_path: Path) -> None:
    write("projects/p/empty.jsonl", text(SESSION[:2]))
    assert read(tmp_path / "projects") == ([], [])


def test_a_long_session_is_cut_so_that_only_its_end_changes(write: Write, tmp_path: Path) -> None:
    lines = [said("user", f"{number} " + "wörd " * 100) for number in range(40)]
    path = write("s.jsonl", text(lines))
    before, _ = read(path, sync_note_bytes=4_096)
    path = write("s.jsonl", text([*lines, said("assistant", "more", "2026-03-02T00:00:00Z")]))
    after, _ = read(path, sync_note_bytes=4_096)
    assert len(before) > 3
    assert [each.ref for each in before[:2]] == ["s", "s#2"]
    assert after[: len(before) - 1] == before[:-1]
    assert all(len(each.note.encode()) <= 4_096 for each in after)
    whole = "\n\n".join(each.note for each in after)
    assert all(f"User: {number} w" in whole for number in range(40))
    assert after[-1].updated_at == 1_772_409_600_000
    assert after[0].updated_at == AT_MS


def test_one_message_longer_than_a_part_is_kept_whole_in_several(write: Write) -> None:
    documents, _ = read(
        write("s.jsonl", text([said("user", "漢" * 10_000)])), sync_note_bytes=4_096
    )
    assert sum(each.note.count("漢") for each in documents) == 10_000
    assert all(len(each.note.encode()) <= 4_096 for each in documents)


def test_a_huge_file_and_a_copy_are_told(write: Write, tmp_path: Path) -> None:
    write("projects/a/one.jsonl", text(SESSION))
    write("projects/b/one.jsonl", text(SESSION))
    write("projects/b/two.jsonl", text([said("user", "x" * 20_000)]))
    documents, skipped = read(tmp_path / "projects", sync_file_bytes=16_000)
    assert [each.ref for each in documents] == ["one"]
    assert skipped == [
        ("b/one.jsonl", "", "the session of a/one.jsonl again"),
        ("b/two.jsonl", "", "larger than 16000 bytes"),
    ]
