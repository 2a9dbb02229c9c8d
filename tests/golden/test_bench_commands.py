"""`memlane bench` and `golden ablate` over a tiny judged folder: one JSON object, or a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from click.testing import CliRunner, Result

from golden.commands import bench, golden
from golden.lexicon import Document
from golden.peers import engine
from golden.peers import run as peers_run


def run(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def report(command: Any, *arguments: object) -> dict[str, Any]:
    result = run(command, *arguments, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = orjson.loads(result.stdout)
    return found


def test_peers_stand_side_by_side(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(_: Sequence[Document]) -> engine.Engine:
        raise engine.MissingPackage("tantivy")

    peers = {"fts5-porter": peers_run.PEERS["fts5-porter"], "tantivy": gone}
    monkeypatch.setattr(peers_run, "PEERS", peers)
    arguments = ("peers", "--set", "tiny", "--corpora", folder)
    tiny = report(bench, *arguments)["sets"]["tiny"]
    assert {name: row["n"] for name, row in tiny.items()} == {"memlane": 4, "fts5-porter": 4}
    assert {"recall10", "ndcg10", "mrr10", "cpu_ms"} <= tiny["fts5-porter"].keys()
    result = run(bench, *arguments, "--first", 2)
    lines = [line.split() for line in result.stdout.splitlines()]
    assert [line[0] for line in lines] == ["tiny", "memlane", "fts5-porter"]
    assert "tantivy is left out: the package tantivy is missing" in result.stderr
    assert "pip install 'memlane[peers]'" in result.stderr


def test_growth_by_size(folder: Path) -> None:
    arguments = ("growth", "--set", "tiny", "--corpora", folder, "--sizes", "2,6")
    found = report(bench, *arguments)
    assert list(found["sizes"]) == ["2", "6"]
    assert found["sizes"]["6"]["cpu_ms"]["p99"] > 0.0
    shown = run(bench, *arguments).stdout
    assert "6 documents" in shown
    assert "p99 growth" in shown


@pytest.mark.parametrize("sizes", ["", "1,x", "0,5", "-3"])
def test_sizes_must_be_numbers_of_documents(folder: Path, sizes: str) -> None:
    result = run(bench, "growth", "--set", "tiny", "--corpora", folder, "--sizes", sizes)
    assert result.exit_code == 2
    assert "--sizes" in result.stderr


def test_heavy_queries_and_upserts(folder: Path) -> None:
    loads = report(bench, "heavy", "--set", "tiny", "--corpora", folder)["loads"]
    assert list(loads) == ["words-200", "common-1", "common-30"]
    assert all(row["cpu_ms"]["p99"] >= row["cpu_ms"]["p50"] > 0.0 for row in loads.values())
    upsert = report(bench, "upsert", "--set", "tiny", "--corpora", folder)
    assert upsert["upserts"] == 4
    assert upsert["cpu_ms"]["p50"] > 0.0


def test_ablation_shows_what_is_lost(folder: Path) -> None:
    arguments = ("ablate", "--set", "tiny", "--corpora", folder)
    tiny = report(golden, *arguments)["sets"]["tiny"]
    assert tiny["all"]["recall10"] == 0.75
    assert tiny["without"]["coverage"]["n"] == 4
    lines = run(golden, *arguments).stdout.splitlines()
    assert lines[1].split() == ["all", "4", "0.750", "0.750", "0.750"]
    assert lines[2].split()[:2] == ["without", "strict"]


def test_an_empty_corpus_is_a_sentence_and_not_a_traceback(folder: Path) -> None:
    (folder / "tiny.corpus.ndjson").write_bytes(b"")
    for command in ("heavy", "upsert", "growth", "peers"):
        result = run(bench, command, "--set", "tiny", "--corpora", folder)
        assert (command, result.exit_code) == (command, 1)
        assert "holds no document" in result.stderr
