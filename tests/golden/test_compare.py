"""A run is held against an earlier one: what fell too far is told, what did not is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from golden import compare
from service.errors import SetupError


def judged_report(whole: float, typo: float, *, n: int = 200) -> dict[str, Any]:
    return {
        "sets": {
            "mem": {
                "n": n,
                "recall10": whole,
                "cpu_ms": {"p50": 1.0},
                "classes": {"typo": {"n": n // 2, "recall10": typo}},
            }
        }
    }


def test_the_same_run_twice_has_no_regression() -> None:
    found = compare.differences(judged_report(0.9, 0.8), judged_report(0.9, 0.8))
    assert [d.path for d in found] == [("mem",), ("mem", "typo")]
    assert not any(d.regressed for d in found)


@pytest.mark.parametrize(
    ("whole", "typo", "regressed"),
    [
        (0.896, 0.79, []),
        (0.894, 0.80, [("mem",)]),
        (0.900, 0.77, [("mem", "typo")]),
        (0.950, 0.90, []),
    ],
)
def test_a_set_may_fall_half_a_point_and_a_class_two(
    whole: float, typo: float, regressed: list[tuple[str, ...]]
) -> None:
    found = compare.differences(judged_report(0.9, 0.8), judged_report(whole, typo))
    assert [d.path for d in found if d.regressed] == regressed


def test_one_query_of_a_small_class_is_noise_and_two_are_not() -> None:
    before = judged_report(0.9, 0.9, n=40)
    assert not any(d.regressed for d in compare.differences(before, judged_report(0.9, 0.85, n=40)))
    worse = compare.differences(before, judged_report(0.9, 0.80, n=40))
    assert [d.path for d in worse if d.regressed] == [("mem", "typo")]


def test_runs_over_other_queries_do_not_compare() -> None:
    with pytest.raises(SetupError, match="200 queries in the baseline, 100 now"):
        compare.differences(judged_report(0.9, 0.8), judged_report(0.9, 0.8, n=100))
    with pytest.raises(SetupError, match="share no set"):
        compare.differences({"sets": {}}, judged_report(0.9, 0.8))


def test_robustness_reports_compare_by_class() -> None:
    before = {"classes": {"typo-2": {"n": 100, "at1": 0.9, "at8": 0.95, "mrr": 0.92}}}
    after = {"classes": {"typo-2": {"n": 100, "at1": 0.9, "at8": 0.90, "mrr": 0.92}}}
    regressed = [d for d in compare.differences(before, after) if d.regressed]
    assert [(d.path, d.measure) for d in regressed] == [(("typo-2",), "at8")]


def test_the_diff_reads_as_lines_with_regressions_marked() -> None:
    found = compare.differences(judged_report(0.9, 0.8), judged_report(0.95, 0.7))
    up, down, closing = compare.lines(found)
    assert up.startswith("  mem ")
    assert "+0.050" in up
    assert down.startswith("! mem/typo")
    assert "0.800 -> 0.700" in down
    assert closing.startswith("1 regressions, 2 changes, 2 figures")


def test_a_report_is_read_as_the_last_line_of_an_output(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(b"a table\n" + orjson.dumps(judged_report(0.9, 0.8)) + b"\n")
    assert compare.read(path) == judged_report(0.9, 0.8)


def test_what_is_not_a_report_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(b'{"sets": {}}')
    with pytest.raises(SetupError, match="not a report"):
        compare.read(path)
    with pytest.raises(SetupError, match="cannot be read"):
        compare.read(tmp_path / "absent.json")
