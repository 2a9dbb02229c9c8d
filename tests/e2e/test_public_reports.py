"""The cases behind public bug reports of systems that do the same job, through the HTTP API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.e2e.service import Service

CASES = json.loads((Path(__file__).parent / "public_reports.json").read_text())["cases"]
STEPS: Mapping[str, list[list[dict[str, Any]]]] = {
    "scope-before-ranking": [
        [
            *(
                {"kind": "task", "ref": f"t{n}", "title": f"falcon launch plan {n}"}
                for n in range(600)
            ),
            {"kind": "memory", "ref": "m1", "note": "word " * 150 + "falcon " + "word " * 149},
        ]
    ],
    "update-delete-leave-nothing-behind": [
        [{"kind": "note", "ref": "bird", "title": "otter"}],
        [{"kind": "note", "ref": "bird", "title": "heron"}],
        [{"op": "delete", "kind": "note", "ref": "bird"}],
        [{"kind": "note", "ref": "tulip", "title": "tulip"}],
    ],
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_public_report(service: Service, case: dict[str, Any]) -> None:
    client = service.tenant(case["id"])
    version = 0
    steps = STEPS[case["id"]] if isinstance(case["docs"], str) else [case["docs"]]
    for lines in steps:
        body = "".join(json.dumps(line) + "\n" for line in lines)
        answer = client.post(f"{service.writer}/v1/documents:batch", content=body)
        assert answer.status_code == 200, answer.text
        version = answer.json()["version"]
    wrong = [
        told
        for check in case["checks"]
        for told in failures(check, ask(client, service.reader, check, version))
    ]
    assert wrong == []


def ask(client: httpx.Client, url: str, check: dict[str, Any], version: int) -> list[str]:
    body = {"q": check["query"], "min_version": version, "kinds": check.get("kinds", [])}
    answer = client.post(f"{url}/v1/search", json=body)
    assert answer.status_code == 200, f"{check['query']!r}: {answer.text}"
    return [hit["ref"] for hit in answer.json()["hits"]]


def failures(check: dict[str, Any], refs: list[str]) -> list[str]:
    query = check["query"]
    known = {"query", "kinds", "must_include", "must_exclude", "top1", "exact", "never_error"}
    assert set(check) <= known
    told = [f"{query!r}: lacks {ref}" for ref in check.get("must_include", []) if ref not in refs]
    told += [f"{query!r}: has {ref}" for ref in check.get("must_exclude", []) if ref in refs]
    if "top1" in check and refs[:1] != [check["top1"]]:
        told.append(f"{query!r}: {refs[:1]} comes first, not {check['top1']}")
    if "exact" in check and refs != check["exact"]:
        told.append(f"{query!r}: {refs}, not {check['exact']}")
    return told
