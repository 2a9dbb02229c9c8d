"""Alerts fire when they should and stay quiet when they should; each has a runbook entry."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.expressions import DEPLOY, ROOT, TESTS, alerts

ALERTS = alerts()
RUNBOOK = (ROOT / "docs" / "RUNBOOK.md").read_text()
OBJECTIVES = (ROOT / "docs" / "SLO.md").read_text()
_ASKED = re.compile(r'alertname=(~?)"([^"]*)"')


def promtool(*arguments: str, folder: Path = DEPLOY / "prometheus") -> tuple[bool, str]:
    told = subprocess.run(
        ["promtool", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return told.returncode == 0, told.stdout + told.stderr


@pytest.mark.usefixtures("installed")
def test_prometheus_takes_the_configuration_with_its_rules() -> None:
    fine, told = promtool("check", "config", "prometheus.yml")
    assert fine, told


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.name)
def test_the_rules_do_what_their_tests_say(path: Path) -> None:
    fine, told = promtool("test", "rules", str(path))
    assert fine, told


def verdicts() -> list[tuple[str, bool]]:
    """(alert, whether it is to fire) of every question in the tests of the rules."""
    found = []
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for asked in test["promql_expr_test"]:
                for fuzzy, name in _ASKED.findall(asked["expr"]):
                    fires = bool(asked["exp_samples"])
                    found += [
                        (alert, fires)
                        for alert in ALERTS
                        if (re.fullmatch(name, alert) if fuzzy else name == alert)
                    ]
    return found


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_is_tested_firing_and_not_firing(alert: str) -> None:
    assert {fires for name, fires in verdicts() if name == alert} == {True, False}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("expression", ["vector(1)", "vector(1) > 1"], ids=["always", "never"])
@pytest.mark.parametrize("alert", ALERTS)
def test_an_alert_that_always_or_never_holds_is_noticed(
    alert: str, expression: str, tmp_path: Path
) -> None:
    copy = tmp_path / "prometheus"
    shutil.copytree(DEPLOY / "prometheus", copy)
    hurt = []
    for path in (copy / "rules").glob("*.yml"):
        rules: dict[str, Any] = yaml.safe_load(path.read_text())
        for rule in (rule for group in rules["groups"] for rule in group["rules"]):
            if rule.get("alert") == alert:
                rule["expr"] = expression
                path.write_text(yaml.safe_dump(rules))
                hurt.append(path.name)
    assert len(hurt) == 1
    fine, told = promtool("test", "rules", f"tests/{hurt[0]}", folder=copy)
    assert not fine
    assert "FAILED" in told


@pytest.mark.parametrize("alert", ALERTS)
def test_each_alert_has_a_runbook_entry_that_says_what_to_do(alert: str) -> None:
    (entry,) = re.findall(rf"^## {alert}\n(.*?)(?=^## |\Z)", RUNBOOK, re.MULTILINE | re.DOTALL)
    for part in ("**Means.**", "**Look at"):
        assert part in entry, f"{alert}: {part}"
    assert "**Do.**" in entry or "and do.**" in entry
    assert ALERTS[alert]["annotations"]["runbook"] == f"docs/RUNBOOK.md#{alert.lower()}"
    assert ALERTS[alert]["labels"]["severity"] in ("page", "ticket")


def test_the_runbook_speaks_of_no_alert_that_is_not_there() -> None:
    assert re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE) != []
    assert set(re.findall(r"^## (\w+)$", RUNBOOK, re.MULTILINE)) == set(ALERTS)
    assert set(re.findall(r"\bMemlane[A-Z]\w+", RUNBOOK + OBJECTIVES)) <= set(ALERTS)
