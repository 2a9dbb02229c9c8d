"""Upserts are measured in a copy: the build that other runs read stays as it was."""

from __future__ import annotations

from pathlib import Path

from golden import builds, judged, upserts


def test_the_cached_build_is_left_alone(folder: Path) -> None:
    corpus = judged.corpus_path(folder, "tiny")
    before = builds.index_of(corpus).read_bytes()
    report = upserts.run(corpus, upserts=3)
    assert report["upserts"] == 3
    assert report["cpu_ms"]["p99"] > 0.0
    assert builds.index_of(corpus).read_bytes() == before
