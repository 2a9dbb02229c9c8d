from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import InvalidSetting, SetupError
from service.settings import Settings
from service.sources import config
from service.sources.config import Config, Entry
from service.sources.known import guess

Write = Callable[..., Path]


def test_a_file_names_sources_relative_to_itself(write: Write, tmp_path: Path) -> None:
    write("key", "ml_key\n")
    path = write(
        "sync.toml",
        'url = "http://node"\nkey_file = "key"\n'
        '[[source]]\npath = "notes"\ntype = "markdown"\nname = "mine"\n'
        '[[source]]\npath = "/var/memory.db"\n',
    )
    found = config.read(path)
    assert found == Config(
        "http://node",
        tmp_path / "key",
        (
            Entry(tmp_path / "notes", "markdown", "mine"),
            Entry(Path("/var/memory.db"), None, None),
        ),
    )
    assert found.key() == "ml_key"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("url = ", "not TOML"),
        ("urls = 'x'", "`urls` means nothing"),
        ("source = 'x'", r"\[\[source\]\]"),
        ("url = 7", "`url` is not a text"),
        ("[[source]]\ntype = 'markdown'", "no `path`"),
        ("[[source]]\npath = 'x'\ntype = 'word'", "no type `word`"),
        ("[[source]]\npath = 'x'\npaths = 'y'", "`paths` means nothing"),
    ],
)
def test_what_has_no_meaning_is_refused_by_name(write: Write, text: str, reason: str) -> None:
    with pytest.raises(InvalidSetting, match=reason):
        config.read(write("sync.toml", text))


def test_a_key_file_that_is_not_there_is_told(write: Write) -> None:
    with pytest.raises(InvalidSetting, match="key file"):
        config.read(write("sync.toml", 'key_file = "none"')).key()


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("memory.ndjson", '{"kind":"note","ref":"a"}\n', "ndjson"),
        ("memory.jsonl", '{"kind":"note","ref":"a"}\n', "ndjson"),
        ("s.jsonl", '{"type":"user","message":{}}\n', "claude-code"),
        ("s.jsonl", '{"type":"us', "claude-code"),
        ("projects/p/s.jsonl", "", "claude-code"),
        ("notes/deep/er/a.md", "", "markdown"),
        ("memory.txt", "hello", None),
        ("list.json", "[1]", None),
        ("photos/a.png", "", None),
    ],
)
def test_a_path_tells_what_it_is(write: Write, name: str, content: str, kind: str | None) -> None:
    path = write(name, content)
    top = path.parents[len(Path(name).parts) - 2] if len(Path(name).parts) > 1 else path
    if kind is None:
        with pytest.raises(SetupError, match="not clear") as caught:
            guess(top, Settings())
        assert "--type" in caught.value.hint
    else:
        assert guess(top, Settings()) == kind
