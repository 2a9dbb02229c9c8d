"""What rules, dashboards and objectives ask for is what the code tells."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from service.settings import Settings
from service.telemetry.names import METRICS, prometheus_name
from tests.deploy.expressions import (
    DASHBOARDS,
    OF_THE_PROCESS,
    ROOT,
    expressions,
    rules,
    used,
)

LABELS = {series: {*metric.labels} for metric in METRICS for series in metric.series}
for _metric in METRICS:
    if _metric.kind == "histogram":
        LABELS[f"{_metric.prometheus}_bucket"].add("le")
RECORDED = {rule["record"] for rule in rules() if "record" in rule}
EXPRESSIONS = list(expressions())


@pytest.mark.parametrize(("where", "expression"), EXPRESSIONS, ids=[w for w, _ in EXPRESSIONS])
def test_every_series_asked_for_is_told_with_the_labels_it_is_chosen_by(
    where: str, expression: str
) -> None:
    names, grouped = used(expression)
    assert names, f"{where} asks for nothing"
    told = set()
    for name, labels in names.items():
        if name in RECORDED:
            assert labels == set(), f"{where}: {name} has no labels"
            continue
        assert name in LABELS, f"{where} asks for {name}, which nobody tells"
        assert labels <= LABELS[name] | OF_THE_PROCESS, f"{where}: {name} has no such label"
        told |= LABELS[name]
    assert grouped <= told | OF_THE_PROCESS, f"{where} groups by a label that is not there"


def test_the_names_of_an_expression_are_found() -> None:
    names, grouped = used(
        'sum by (memlane_shard, le) (rate(memlane_x_bucket{le="memlane_no", a=~"b"}[5m]))'
        " / on (job) (memlane:y:rate5m > 0)"
    )
    assert names == {"memlane_x_bucket": {"le", "a"}, "memlane:y:rate5m": set()}
    assert grouped == {"memlane_shard", "le", "job"}


@pytest.mark.usefixtures("installed")
def test_every_expression_is_promql(tmp_path: Path) -> None:
    found = [{"record": "x", "expr": expression} for _, expression in EXPRESSIONS]
    groups = [{"name": f"g{n}", "rules": [rule]} for n, rule in enumerate(found)]
    path = tmp_path / "all.yml"
    path.write_text(yaml.safe_dump({"groups": groups}))
    told = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stdout + told.stderr


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.name)
def test_dashboards_are_whole(path: Path) -> None:
    board = json.loads(path.read_text())
    assert board["uid"] == f"memlane-{path.stem}"
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    for panel in board["panels"]:
        assert panel["title"]
        assert panel["description"]
        assert panel["targets"]
        assert panel["datasource"]["uid"] == "${datasource}"


def test_there_is_a_dashboard_for_each_concern() -> None:
    asked = {"states", "latency", "freshness", "embedder", "sync", "cost"}
    assert {path.stem for path in DASHBOARDS} == asked


def test_every_metric_is_on_a_dashboard() -> None:
    shown = {name for where, expr in EXPRESSIONS if ".json" in where for name in used(expr)[0]}
    for rule in rules():  # a dashboard may show what a rule made of it
        if rule.get("record") in shown:
            shown |= set(used(rule["expr"])[0])
    assert [each.name for each in METRICS if not shown & set(each.series)] == []


@pytest.mark.parametrize("page", ["RUNBOOK.md", "SLO.md", "METRICS.md"])
def test_settings_that_pages_name_exist(page: str) -> None:
    text = (ROOT / "docs" / page).read_text()
    known = {f"MEMLANE_{name.upper()}" for name in Settings.__dataclass_fields__}
    assert set(re.findall(r"MEMLANE_\w+", text)) <= known | {"MEMLANE_EMBEDDER"}


@pytest.mark.parametrize(
    ("name", "unit", "monotonic", "expected"),
    [
        ("memlane.search.queries", "{query}", True, "memlane_search_queries_total"),
        ("memlane.search.duration", "s", False, "memlane_search_duration_seconds"),
        ("memlane.vectors.coverage", "1", False, "memlane_vectors_coverage_ratio"),
        ("process.cpu.time", "s", True, "process_cpu_time_seconds_total"),
        ("some.total.count", "1", True, "some_count_total"),
        ("disk.bytes.free", "By", False, "disk_bytes_free"),
    ],
)
def test_names_are_translated_as_the_specification_says(
    name: str, unit: str, monotonic: bool, expected: str
) -> None:
    assert prometheus_name(name, unit, monotonic=monotonic) == expected
