"""docs/SYNC.md and the systemd unit say what is so."""

from __future__ import annotations

import configparser
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

import memlane
from service.cli import main
from service.sources import config
from service.sources.known import TYPES

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "SYNC.md").read_text()
UNIT = ROOT / "deploy" / "systemd" / "memlane-sync.service"


def commands() -> list[list[str]]:
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    told = [shlex.split(line) for block in blocks for line in block.splitlines()]
    return [words[1:] for words in told if words[0] == "memlane"]


def test_the_commands_exist_with_their_options() -> None:
    unit = configparser.ConfigParser(strict=False, interpolation=None)
    unit.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names have case
    unit.read(UNIT)
    started = shlex.split(unit["Service"]["ExecStart"])
    assert started[0].endswith("/memlane")
    found = [*commands(), started[1:]]
    assert len(found) >= 8
    for words in found:
        path = words[:2] if words[0] == "bench" else words[:1]
        told = CliRunner().invoke(main, [*path, "--help"])
        assert told.exit_code == 0, words
        for option in (word for word in words if word.startswith("--")):
            assert option in told.output, f"{option} of memlane {' '.join(path)}"


def test_the_config_file_shown_can_be_read(tmp_path: Path) -> None:
    (shown,) = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    path = tmp_path / "sync.toml"
    path.write_text(shown)
    assert [entry.type for entry in config.read(path).sources] == [None, "claude-code", "agentkits"]


def test_every_type_and_no_other_is_described() -> None:
    assert tuple(re.findall(r"^\| `(\w[\w-]*)` \|", PAGE, re.MULTILINE)) == TYPES


@pytest.mark.parametrize("client", [memlane.Client, memlane.AsyncClient])
def test_every_method_is_named_and_there(client: type) -> None:
    methods = {
        name
        for name in vars(client)
        if not name.startswith("_") and callable(getattr(client, name))
    }
    listed = PAGE.split("has the same methods:")[1].split("for anything else")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == methods - {"close"}


def test_files_named_on_the_page_exist() -> None:
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", PAGE):
        assert (ROOT / "docs" / name).exists(), name
