"""The scripted incident, as `memlane fleet incident` plays it."""

from __future__ import annotations

import shutil

import pytest

from golden.fleet import incident


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_alerts_hold_within_a_minute_of_each_fault_and_none_before() -> None:
    if shutil.which("prometheus") is None:
        pytest.skip("prometheus is not installed: apt-get install prometheus")
    report = incident.run(model=None, program=None, progress=lambda _: None)
    assert report["true_before"] == []
    assert report["all_within"], report["faults"]
    assert report["unknown_metrics"] == []
    lines = list(incident.table(report))
    assert any("MemlaneCanaryLate" in line for line in lines)
    assert lines[-1].endswith("yes")
