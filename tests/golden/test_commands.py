"""The commands end to end over a tiny judged folder, in process."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import orjson
from click.testing import CliRunner, Result

from golden import builds, cases, judged, lexicon
from golden.backends import InProcess
from golden.commands import bench, golden


def run(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def last_json(result: Result) -> dict[str, Any]:
    report: dict[str, Any] = orjson.loads(result.stdout.strip().rsplit("\n", 1)[-1])
    return report


def test_judged_reports_every_set_and_class(folder: Path) -> None:
    result = run(golden, "judged", "--corpora", folder, "--json")
    assert result.exit_code == 0
    tiny = last_json(result)["sets"]["tiny"]
    assert (tiny["n"], tiny["recall10"]) == (4, 0.75)
    assert tiny["classes"]["plain"]["top1"] == 1.0
    assert tiny["classes"]["cjk"]["mrr10"] == 1.0
    assert tiny["classes"]["absent"]["recall10"] == 0.0
    assert tiny["cpu_ms"]["p50"] > 0.0


def test_judged_stops_at_a_regression_and_names_it(folder: Path, tmp_path: Path) -> None:
    first = run(golden, "judged", "--corpora", folder, "--json")
    better = orjson.loads(first.stdout.replace('"recall10":0.75', '"recall10":0.95', 1))
    baseline = tmp_path / "baseline.json"
    baseline.write_bytes(orjson.dumps(better))
    result = run(golden, "judged", "--corpora", folder, "--against", baseline)
    assert result.exit_code == 1
    assert "! tiny" in result.stdout
    assert "0.950 -> 0.750" in result.stdout


def test_judged_against_itself_passes(folder: Path, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    baseline.write_text(run(golden, "judged", "--corpora", folder, "--json").stdout)
    result = run(golden, "judged", "--corpora", folder, "--against", baseline, "--json")
    assert result.exit_code == 0
    assert last_json(result)["regressions"] == []


def test_robustness_reports_classes(folder: Path) -> None:
    result = run(golden, "robustness", "--set", "tiny", "--corpora", folder, "--json")
    assert result.exit_code == 0
    control = last_json(result)["classes"]["control"]
    assert control == {"n": 4, "at1": 1.0, "at8": 1.0, "mrr": 1.0}


def test_bench_reports_figures(folder: Path) -> None:
    query = last_json(run(bench, "query", "--set", "tiny", "--corpora", folder, "--json"))
    assert query["queries"] == 4
    assert query["cpu_ms"]["p99"] >= query["cpu_ms"]["p50"] > 0.0
    index = last_json(run(bench, "index", "--set", "tiny", "--corpora", folder, "--json"))
    assert index["documents"] == 4
    assert index["bytes_per_document"] > 0
    documents = map(lexicon.document, judged.lines(judged.corpus_path(folder, "tiny")))
    assert index["tokenizer"]["chars"] == sum(len(d.title) + len(d.body) for d in documents)


def test_a_mistake_is_a_sentence_and_not_a_traceback(folder: Path) -> None:
    result = run(golden, "judged", "--corpora", folder / "absent")
    assert result.exit_code == 1
    assert "is not a folder" in result.stderr
    result = run(golden, "judged", "--corpora", folder, "--url", "http://memory.example")
    assert "--url needs a key" in result.stderr


def test_a_build_is_reused_until_the_corpus_changes(folder: Path) -> None:
    corpus = judged.corpus_path(folder, "tiny")
    first = builds.index_of(corpus)
    stamp = first.stat().st_mtime_ns
    assert builds.index_of(corpus) == first
    assert first.stat().st_mtime_ns == stamp
    corpus.write_bytes(corpus.read_bytes().replace(b"Customs", b"Postage"))
    second = builds.index_of(corpus)
    assert second != first
    assert not list(builds.cache_folder().glob(".building-*"))


def test_a_damaged_corpus_leaves_no_build_behind(folder: Path) -> None:
    (folder / "tiny.corpus.ndjson").write_text('{"kind": "note"}\n', encoding="utf-8")
    result = run(golden, "judged", "--corpora", folder)
    assert result.exit_code == 1
    assert list(builds.cache_folder().iterdir()) == []


def test_all_golden_cases_pass(folder: Path) -> None:
    """Without their latencies: how fast this machine is today is not what a test is about."""
    loaded = [dataclasses.replace(case, max_latency_ms=None) for case in cases.load()]
    with InProcess(cases.DEMO_CORPUS) as backend:
        failures = [failure for case in loaded for failure in cases.run(backend, case)]
    assert [f"{f.case.id}: {f.assertion} ({f.came_instead})" for f in failures] == []
