"""All PromQL of the deployment, and the names in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import yaml

ROOT: Final = Path(__file__).parents[2]
DEPLOY: Final = ROOT / "deploy"
RULES: Final = sorted((DEPLOY / "prometheus" / "rules").glob("*.yml"))
TESTS: Final = sorted((DEPLOY / "prometheus" / "tests").glob("*.yml"))
DASHBOARDS: Final = sorted((DEPLOY / "grafana").glob("*.json"))

#: Labels that stand for the process, not for an attribute of ours.
OF_THE_PROCESS: Final = {"job", "instance"}
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_GROUPS = re.compile(r"\b(?:by|on|without|ignoring)\s*\(([^)]*)\)")
_NAME = re.compile(r"(?<![\w:])((?:memlane|process)[\w:]*)(?:\{([^}]*)\})?")
_MATCHER = re.compile(r"(\w+)\s*(?:=~|!~|!=|=)")


def rules() -> Iterator[dict[str, Any]]:
    """Every rule, recording and alerting."""
    for path in RULES:
        for group in yaml.safe_load(path.read_text())["groups"]:
            yield from group["rules"]


def alerts() -> dict[str, dict[str, Any]]:
    """Alerting rules by name."""
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


def expressions() -> Iterator[tuple[str, str]]:
    """(where, expression) of rules, dashboards and the page of objectives."""
    for rule in rules():
        yield rule.get("alert") or rule["record"], rule["expr"]
    for path in DASHBOARDS:
        for panel in json.loads(path.read_text())["panels"]:
            for target in panel["targets"]:
                told = target["expr"].replace("$__rate_interval", "1m")
                yield f"{path.name}: {panel['title']}", told
    page = (ROOT / "docs" / "SLO.md").read_text()
    for number, block in enumerate(re.findall(r"```promql\n(.*?)```", page, re.DOTALL)):
        yield f"SLO.md, {number + 1}", block


def used(expression: str) -> tuple[dict[str, set[str]], set[str]]:
    """Names of series with the labels they are chosen by, and the labels grouped by."""
    plain = _STRINGS.sub('""', expression)
    grouped = {
        label.strip() for group in _GROUPS.findall(plain) for label in group.split(",") if label
    }
    names: dict[str, set[str]] = {}
    for name, matchers in _NAME.findall(_GROUPS.sub("", plain)):
        names.setdefault(name, set()).update(_MATCHER.findall(matchers))
    return names, grouped
