from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import SetupError
from service.settings import Settings
from service.sources.markdown import Markdown
from service.sources.source import Document, Skipped

Write = Callable[..., Path]


def read(path: Path, **limits: int) -> tuple[dict[str, Document], dict[str, str]]:
    source = Markdown(path, "notes", Settings(**limits))
    documents, skipped = {}, {}
    for unit in source.units():
        for found in [unit] if isinstance(unit, Skipped) else source.read(unit):
            if isinstance(found, Document):
                documents[found.ref] = found
            else:
                skipped[found.unit] = found.reason
    return documents, skipped


def test_a_vault_becomes_documents(write: Write, tmp_path: Path) -> None:
    write("notes/plan.md", "intro\r\n\r\n## The plan ##\r\ntext")
    write(
        "notes/deep/er/主题.md",
        '---\ntitle: "网关 retries"\ntags: [a, b]\nupdated: 2026-01-02\n---\n# no\nbody',
    )
    write("notes/skills/x/SKILL.md", "---\nname: x-skill\ndescription: does x\n---\nsteps")
    write("notes/CLAUDE.md", "be brief")
    write("notes/empty.md", "")
    write("notes/.obsidian/secret.md", "# hidden")
    write("notes/picture.png", b"\x89PNG")
    documents, skipped = read(tmp_path / "notes")
    assert skipped == {}
    told = {ref: (d.kind, d.title, d.summary, d.note, d.meta) for ref, d in documents.items()}
    assert told == {
        "notes/plan.md": ("note", "The plan", "", "intro\n\n## The plan ##\ntext", ""),
        "notes/deep/er/主题.md": ("note", "网关 retries", "", "# no\nbody", "tags: a, b"),
        "notes/skills/x/SKILL.md": ("skill", "x-skill", "does x", "steps", ""),
        "notes/CLAUDE.md": ("memory", "CLAUDE", "", "be brief", ""),
        "notes/empty.md": ("note", "empty", "", "", ""),
    }
    plan = tmp_path / "notes/plan.md"
    assert documents["notes/plan.md"].updated_at == plan.stat().st_mtime_ns // 1_000_000
    assert documents["notes/deep/er/主题.md"].updated_at == 1_767_312_000_000


def test_refs_are_the_same_however_the_machine_stores_names(write: Write, tmp_path: Path) -> None:
    write("notes/Cafe\u0301.md", "x")
    assert set(read(tmp_path / "notes")[0]) == {"notes/Caf\u00e9.md"}


def test_what_cannot_be_read_is_told_and_the_rest_kept(write: Write, tmp_path: Path) -> None:
    write("notes/good.md", "# good")
    write("notes/latin.md", "caf\xe9".encode("latin-1"))
    write("notes/huge.md", "x" * 6_000)
    (tmp_path / "notes" / "dangling.md").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "notes" / "pipe.txt")
    documents, skipped = read(tmp_path / "notes", sync_line_bytes=10_000)
    assert set(documents) == {"notes/good.md"}
    assert skipped == {
        "latin.md": "not UTF-8",
        "huge.md": "larger than 5000 bytes",
        "dangling.md": "cannot be read (No such file or directory)",
    }


def test_a_name_that_is_not_utf_8_is_told(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    with open(os.fsencode(tmp_path / "notes") + b"/caf\xe9.md", "w") as file:  # noqa: PTH123
        file.write("x")
    documents, skipped = read(tmp_path / "notes")
    assert documents == {}
    assert list(skipped.values()) == ["its name is not UTF-8"]


def test_too_many_files_are_refused(write: Write, tmp_path: Path) -> None:
    for number in range(3):
        write(f"notes/{number}.md", "x")
    with pytest.raises(SetupError, match="more than 2 files"):
        read(tmp_path / "notes", sync_files=2)
