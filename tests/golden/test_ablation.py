"""Leaving a component out shows what it was worth, and puts it back."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from golden import ablation, judged
from golden.backends import InProcess
from service.ranking import scoring


def test_a_weight_is_put_back_even_after_an_error() -> None:
    before = dict(scoring.WEIGHTS)
    with ablation.weight("ref", 0.0):
        assert scoring.WEIGHTS["ref"] == 0.0
    with pytest.raises(ZeroDivisionError), ablation.weight("ref", 0.5):
        _ = 1 / 0
    assert before == scoring.WEIGHTS


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ref that is a word: only its own component ranks its bare document above a rich one."""
    monkeypatch.setenv("MEMLANE_GOLDEN_CACHE", str(tmp_path / "cache"))
    rows = [
        {"kind": "note", "ref": "depot", "title": "plan", "updatedAt": 1},
        {"kind": "note", "ref": "x", "title": "depot", "note": "depot depot", "updatedAt": 2},
    ]
    (tmp_path / "named.corpus.ndjson").write_bytes(b"\n".join(map(orjson.dumps, rows)))
    (tmp_path / "named.queries.ndjson").write_bytes(orjson.dumps({"id": "ref-1", "query": "depot"}))
    (tmp_path / "named.qrels.tsv").write_text("ref-1\tdepot\t1\n")
    return tmp_path


def test_each_component_is_left_out_in_turn(named: Path) -> None:
    judged_set = judged.load(named, "named")
    heard: list[int] = []
    with InProcess(judged_set.corpus) as backend:
        report = ablation.run(backend, judged_set, progress=heard.append)
    assert list(report["without"]) == list(scoring.WEIGHTS)
    assert len(heard) == ablation.runs()
    assert report["all"] == {"n": 1, "recall10": 1.0, "mrr10": 1.0, "ndcg10": 1.0, "top1": 1.0}
    assert report["without"]["ref"]["top1"] == 0.0
    assert report["without"]["recency"]["top1"] == 1.0
