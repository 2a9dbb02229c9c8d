"""A tiny judged folder with the set `tiny`, and a build cache of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

TITLES = {
    "a": "Rotate the signing keys of the depot interface",
    "b": "Customs forms for parcels to Switzerland",
    "c": "Thermal printer refuses umlauts in addresses",
    "d": "修复仓库搜索索引的问题",
}
QUERIES = {
    "plain-1": ("signing keys", "a"),
    "plain-2": ("customs forms", "b"),
    "cjk-1": ("仓库搜索", "d"),
    "absent-1": ("unrelated words entirely", "c"),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEMLANE_GOLDEN_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("MEMLANE_KEY", raising=False)
    folder = tmp_path / "judged"
    folder.mkdir()
    write(
        folder / "tiny.corpus.ndjson",
        [
            {"kind": "note", "ref": r, "title": t, "updatedAt": 1_700_000_000_000}
            for r, t in TITLES.items()
        ],
    )
    write(folder / "tiny.queries.ndjson", [{"id": i, "query": q} for i, (q, _) in QUERIES.items()])
    qrels = "".join(f"{i}\t{ref}\t1\n" for i, (_, ref) in QUERIES.items())
    (folder / "tiny.qrels.tsv").write_text(qrels, encoding="utf-8")
    return folder


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_bytes(b"\n".join(map(orjson.dumps, rows)))
