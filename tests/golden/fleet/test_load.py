"""The driver's own arithmetic: what counts as lost, torn, stale."""

from __future__ import annotations

import time
from typing import Any, cast

import pytest

from golden.fleet import load as loads
from golden.fleet import records
from golden.fleet.load import Load
from golden.fleet.world import Fleet, Tenant

TENANT = Tenant("t1", "key")


@pytest.fixture
def load() -> Load:
    return Load(cast("Fleet", None), [TENANT], seed=1)


def answer(version: int, age_ms: int, *documents: dict[str, Any]) -> dict[str, Any]:
    return {"documents": list(documents), "index": {"version": version, "age_ms": age_ms}}


def test_an_answer_is_stale_in_silence_when_it_claims_to_be_younger_than_what_it_lacks(
    load: Load,
) -> None:
    now = time.monotonic()
    load._versions["t1"] = [(now - 10, 5), (now - 2, 6)]
    load._check(TENANT, answer(6, 0), now)
    load._check(TENANT, answer(5, 3_000), now)  # honestly three seconds old
    load._check(TENANT, answer(5, 1_800), now)  # within the slack of a request
    assert load._counts["stale_silent"] == 0
    load._check(TENANT, answer(5, 1_000), now)
    load._check(TENANT, answer(4, 3_000), now)
    assert load._counts["stale_silent"] == 2


def test_torn_and_foreign_documents_are_counted(load: Load) -> None:
    mine, theirs = records.document("t1", 1, 1), records.document("t2", 1, 1)
    load._check(TENANT, answer(1, 0, mine, theirs, mine | {"note": "half"}), time.monotonic())
    assert (load._counts["torn"], load._counts["foreign"]) == (1, 1)


def test_a_document_is_lost_when_neither_its_writing_nor_a_later_one_is_there(
    load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    load._acked = {("t1", 0): 4, ("t1", 1): 9, ("t1", 2): 3}
    load._durable = {("t1", 0): 4, ("t1", 1): 7}
    found: dict[int, int] | None = {0: 6, 1: 7}
    monkeypatch.setattr(loads.Load, "_final", lambda _self, _tenant: found)
    report = load.audit()
    # 0 was overwritten by a later round; 1 lost a local write alone; 2 is gone
    assert (report["lost_durable"], report["lost_bounded"]) == (0, 2)
    found = None  # nobody answers
    report = load.audit()
    assert (report["lost_durable"], report["unread_tenants"]) == (2, 1)
