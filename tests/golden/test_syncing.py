"""The bench of syncing, on a small corpus and a real service."""

from __future__ import annotations

import json
from pathlib import Path

from golden import syncing


def test_each_sync_sends_what_it_must(tmp_path: Path) -> None:
    corpus = tmp_path / "small.corpus.ndjson"
    rows = [
        {"kind": "note", "ref": f"n{n}", "note": "gateway " * 60, "updatedAt": 1_700_000_000_000}
        for n in range(600)
    ]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    steps: list[int] = []
    report = syncing.run(corpus, progress=steps.append)
    assert list(report) == ["first", "unchanged", "changed_1pct", "deleted_1pct"]
    assert len(steps) == 4
    sent = {name: told["bytes_sent"] for name, told in report.items()}
    whole = corpus.stat().st_size
    assert whole < sent["first"] < 1.5 * whole
    assert sent["unchanged"] < 1_000
    assert report["unchanged"]["bytes_received"] < 64_000
    assert 6 * 480 < sent["changed_1pct"] < 10 * 600
    assert sent["unchanged"] < sent["deleted_1pct"] < sent["changed_1pct"]
