"""Documents that prove themselves: each says whose it is, and carries a checksum of its text."""

from __future__ import annotations

import hashlib
import random
from typing import Any, Literal

KIND = "note"
_TEXT = """
    gateway retry budget replica snapshot tenant heron otter ledger harbour valve lantern meadow
    quarry rivet saddle timber umbrella violin walnut 重试 网关 修复 索引 検索 同期 색인 복제
"""
WORDS = _TEXT.split()
Verdict = Literal["sound", "torn", "foreign"]


def document(tenant: str, number: int, round_: int, *, words: int = 40) -> dict[str, Any]:
    """One line of a batch; the same numbers always give the same document."""
    rng = random.Random(f"{tenant} {number} {round_}")  # noqa: S311  (chance, not secrets)
    note = " ".join(rng.choices(WORDS, k=words))
    title = f"{tenant} entry {number} round {round_}"
    return {
        "kind": KIND,
        "ref": ref(number),
        "title": title,
        "note": note,
        "meta": f"tenant:{tenant} round:{round_} sum:{_checksum(title, note)}",
        "updated_at": 1_790_000_000_000 + round_,
    }


def ref(number: int) -> str:
    """The name of a tenant's document."""
    return f"doc-{number}"


def round_of(found: dict[str, Any]) -> int:
    """Which writing of the document this is."""
    return int(_facts(found)["round"])


def verdict(tenant: str, found: dict[str, Any]) -> Verdict:
    """Is this whole, and this tenant's?"""
    facts = _facts(found)
    if facts.get("sum") != _checksum(found["title"], found["note"]):
        return "torn"
    return "sound" if facts.get("tenant") == tenant else "foreign"


def _facts(found: dict[str, Any]) -> dict[str, str]:
    return dict(fact.split(":", 1) for fact in found["meta"].split() if ":" in fact)


def _checksum(title: str, note: str) -> str:
    return hashlib.blake2b(f"{title}\n{note}".encode(), digest_size=8).hexdigest()
