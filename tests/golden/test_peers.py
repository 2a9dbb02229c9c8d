"""Every peer finds what its kind of index can find, in one interleaved run with ours."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from golden import judged
from golden.answers import Found
from golden.lexicon import Document
from golden.peers import engine
from golden.peers.fts5 import Fts5
from golden.peers.run import OURS, PEERS, run

PACKAGES = {
    "bm25s+stem": ("bm25s", "Stemmer"),
    "tantivy": ("tantivy",),
    "tantivy-ngram": ("tantivy",),
}


def document(ref: str, title: str, body: str = "", *identifiers: str) -> Document:
    return Document("note", ref, title, body, identifiers)


DOCUMENTS = [
    document("a", "Rotate the signing keys", "of the depot"),
    document("b", "Customs forms for parcels"),
    document("c", "修复仓库搜索索引的问题", "", "AB-1024"),
]


def opened(name: str) -> engine.Engine:
    for package in PACKAGES.get(name, ()):
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed: {engine.INSTALL}")
    return PEERS[name](DOCUMENTS)


def refs(found: Sequence[Found]) -> list[str]:
    return [hit.ref for hit in found]


@pytest.mark.parametrize("name", sorted(PEERS))
def test_a_peer_finds_words_of_title_body_and_identifiers(name: str) -> None:
    peer = opened(name)
    assert refs(peer.search("customs parcels", 10))[0] == "b"
    assert refs(peer.search("Depot", 10))[0] == "a"
    assert refs(peer.search("1024", 10))[0] == "c"
    assert len(peer.search("signing customs 1024", 2)) == 2
    peer.close()


@pytest.mark.parametrize("name", sorted(PEERS))
@pytest.mark.parametrize(
    "query",
    [
        "",
        "  ",
        '"',
        "a AND OR NOT (",
        "text:*",
        "x" * 5_000,
        "-",
        "\0",
        "a\0b c",
        "say \"so\" 'no'",
    ],
)
def test_nothing_in_a_query_is_grammar(name: str, query: str) -> None:
    assert len(opened(name).search(query, 10)) <= len(DOCUMENTS)


@pytest.mark.parametrize("name", sorted(PEERS))
def test_what_no_document_holds_is_not_found(name: str) -> None:
    assert opened(name).search("qqqq", 10) == []


def test_stemmers_find_inflections_and_the_plain_tokenizer_does_not() -> None:
    found = {name: refs(opened(name).search("parcel", 10)) for name in ("fts5-porter", "tantivy")}
    assert found == {"fts5-porter": ["b"], "tantivy": ["b"]}
    assert opened("fts5-unicode61").search("parcel", 10) == []


@pytest.mark.parametrize("name", ["fts5-trigram", "tantivy-ngram"])
def test_engines_of_pieces_find_part_of_a_chinese_run(name: str) -> None:
    assert refs(opened(name).search("请问仓库搜索", 10))[0] == "c"


def never(name: str, error: engine.MissingPackage) -> None:
    pytest.fail(f"{name}: {error}")


class Recording:
    """Finds nothing; writes down when it is asked."""

    def __init__(self, _: Sequence[Document], *, name: str, asked: list[str]) -> None:
        self.name, self.asked = name, asked

    def search(self, query: str, limit: int) -> list[Found]:
        self.asked.append(self.name)
        return []

    def close(self) -> None:
        self.asked.append("closed")


def test_engines_take_turns_at_going_first(folder: Path) -> None:
    asked: list[str] = []
    peers = {name: partial(Recording, name=name, asked=asked) for name in ("x", "y")}
    report = run(judged.load(folder, "tiny"), peers=peers, missing=never)
    # warmed, then rounds that begin with ours, x, y and ours; then all are closed
    assert "".join(asked[:-2]) == "xy" + "xy" + "xy" + "yx" + "xy"
    assert asked[-2:] == ["closed", "closed"]
    assert report["x"]["recall10"] == 0.0
    assert report[OURS]["recall10"] == 0.75


def test_sqlites_figures_stand_beside_ours(folder: Path) -> None:
    peers = {"fts5-unicode61": partial(Fts5, tokenizer="unicode61")}
    report = run(judged.load(folder, "tiny"), first=2, peers=peers, missing=never)
    assert {name: (r["n"], r["recall10"]) for name, r in report.items()} == {
        OURS: (2, 1.0),
        "fts5-unicode61": (2, 1.0),
    }
    assert report["fts5-unicode61"]["cpu_ms"]["p50"] > 0.0


def test_a_missing_package_is_named_and_the_others_go_on(folder: Path) -> None:
    def absent(_: Sequence[Document]) -> engine.Engine:
        engine.package("no_such_package_here", name="No-Such")
        raise AssertionError("unreachable")

    told: dict[str, engine.MissingPackage] = {}
    peers = {"gone": absent, "fts5-porter": PEERS["fts5-porter"]}
    report = run(judged.load(folder, "tiny"), peers=peers, missing=told.setdefault)
    assert list(report) == [OURS, "fts5-porter"]
    assert "No-Such is missing" in told["gone"].detail
    assert "memlane[peers]" in told["gone"].hint
