"""Documentation is tested against the code it speaks of."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from service.cli import main
from service.docs import pages
from service.http.routes import ROUTES
from service.ranking import scoring

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.mark.parametrize("name", sorted(pages()))
def test_generated_pages_are_current(name: str) -> None:
    assert (ROOT / "docs" / name).read_text() == pages()[name], "run `python -m service.docs`"


def commands_in_readme() -> list[list[str]]:
    blocks = re.findall(r"^```console\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    lines = re.findall(r"^memlane ([a-z].*)$", "".join(blocks), re.MULTILINE)
    return [line.split() for line in lines]


def test_every_command_of_the_readme_exists_with_its_options() -> None:
    assert len(commands_in_readme()) >= 8
    for words in commands_in_readme():
        path = words[:1]
        if words[0] in ("tenant", "key", "golden", "bench", "fleet", "index", "model"):
            path = words[:2]
        told = CliRunner().invoke(main, [*path, "--help"])
        assert told.exit_code == 0, f"memlane {' '.join(path)}"
        for option in (word for word in words if word.startswith("--")):
            assert option.split("=")[0] in told.output, f"{option} of memlane {' '.join(path)}"


def test_every_address_of_the_readme_exists() -> None:
    known = {getattr(route, "path", "") for route in ROUTES}
    for path in set(re.findall(r"`(?:GET|POST) (/[\w/:.-]*)", README)):
        assert path in known, path


def test_files_named_in_the_readme_exist() -> None:
    for name in re.findall(r"\]\((?!http)([^)#]+)\)", README):
        assert (ROOT / name).exists(), name


def test_ranking_page_states_the_weights_in_force() -> None:
    page = (ROOT / "docs" / "RANKING.md").read_text()
    stated = dict(re.findall(r"^\| `(\w+)` \| ([\d.]+) \|", page, re.MULTILINE))
    assert {name: float(weight) for name, weight in stated.items()} == scoring.WEIGHTS
