"""What is reported of prefetches; the run itself, small, with a real fleet and sidecar."""

from __future__ import annotations

from pathlib import Path

import pytest

from embedder.builds.recipes import build
from golden import prefetching


def test_the_report_counts_what_came_too_late() -> None:
    def told(hits: int, skipped: list[str], state: str) -> dict[str, object]:
        return {"hits": [[]] * hits, "skipped": skipped, "semantic": {"state": state}}

    report = prefetching._report(
        [
            (10.0, False, told(2, [], "ok")),
            (319.0, False, told(1, ["semantic"], "timeout")),
            (321.0, True, told(0, ["replica", "semantic"], "skipped")),
        ],
        300,
    )
    assert report["late"] == 1
    assert (report["worst_ms"], report["worst_over_ms"]) == (321.0, 21.0)
    assert (report["calls"], report["found"], report["away"]) == (3, 2, 1)
    assert report["skipped"] == {"semantic": 2, "replica": 1}
    assert report["semantic"] == {"ok": 1, "timeout": 1, "skipped": 1}


@pytest.mark.slow
def test_no_prefetch_is_late_with_the_sidecar_paused_and_tenants_away(tmp_path: Path) -> None:
    assert build("tiny", tmp_path / "tiny")
    report = prefetching.run(model=str(tmp_path / "tiny"), calls=100, progress=lambda _: None)
    assert report["late"] == 0
    assert report["away"] == 5
    assert report["found"] >= 95
    assert report["semantic"].get("ok", 0) == 0
