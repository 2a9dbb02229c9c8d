"""The measurement of typing speed measures: every key is painted or superseded, and takes time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from golden import cases
from golden.typing_speed import run


@pytest.mark.usefixtures("installed")
def test_every_key_is_accounted_for() -> None:
    typed: list[int] = []
    queries = ["ferry lane", "depot"]
    with ThreadPoolExecutor(1) as thread:  # Playwright runs once a thread; here the tests' own does
        report = thread.submit(
            run, cases.DEMO_CORPUS, queries, interval_ms=60, progress=typed.append
        ).result()
    assert typed == [1, 1]
    assert report["keystrokes"] == len("ferry lane") + len("depot")
    assert report["painted"] + report["superseded"] == report["keystrokes"]
    assert report["painted"] >= len(queries)  # nothing supersedes a query's last key
    assert 0 < report["request_ms"]["p50"] < report["paint_ms"]["p50"]
