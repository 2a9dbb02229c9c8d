"""A corpus grows into other documents, always the same ones, and is searched at every size."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import orjson
import pytest

from golden import builds, growth, judged, lexicon
from service.index.reader import IndexReader


def quiet(_: int) -> AbstractContextManager[Callable[[int], object]]:
    return nullcontext(lambda _: None)


@pytest.fixture
def corpus(folder: Path) -> Path:
    return judged.corpus_path(folder, "tiny")


def test_a_corpus_comes_first_and_then_repeats_under_other_refs(corpus: Path) -> None:
    lines = list(itertools.islice(growth.grown(corpus), 11))
    assert lines[:4] == list(judged.lines(corpus))
    refs = [orjson.loads(line)["ref"] for line in lines]
    assert refs == ["a", "b", "c", "d", "a~1", "b~1", "c~1", "d~1", "a~2", "b~2", "c~2"]
    assert lines == list(itertools.islice(growth.grown(corpus), 11))


def test_a_share_of_the_words_changes_and_the_vocabulary_grows(tmp_path: Path) -> None:
    corpus = tmp_path / "long.corpus.ndjson"
    rows = [
        {
            "kind": "note",
            "ref": f"r{number}",
            "title": " ".join(f"w{number}x{place}" for place in range(200)) + " 仓库搜索",
            "identifiers": ["AB-1"],
        }
        for number in range(10)
    ]
    corpus.write_bytes(b"\n".join(map(orjson.dumps, rows)))
    lines = list(itertools.islice(growth.grown(corpus), 20))
    before, after = [
        [word for line in part for word in lexicon.words(lexicon.document(line).title)]
        for part in (lines[:10], lines[10:])
    ]
    assert len(before) == len(after) == 2_010
    changed = sum(old != new for old, new in zip(before, after, strict=True))
    assert changed / len(before) == pytest.approx(growth.REPLACED_SHARE, abs=0.04)
    fresh = set(after) - set(before)
    assert len(fresh) / changed == pytest.approx(growth.PSEUDO_SHARE, abs=0.1)
    assert after.count("仓库搜索") == 10
    assert orjson.loads(lines[10])["identifiers"] == ["AB-1~1"]


def test_pseudo_words_are_all_different() -> None:
    assert len({growth.pseudo_word(number) for number in range(10_000)}) == 10_000


def test_every_size_is_built_once_with_its_documents(corpus: Path) -> None:
    built: list[int] = []

    def building(size: int) -> AbstractContextManager[Callable[[int], object]]:
        return nullcontext(built.append)

    for size in (2, 4, 9):
        reader = IndexReader(growth.index_of(corpus, size, building))
        with reader.snapshot():
            assert reader.docs == size
        reader.close()
    growth.index_of(corpus, 9, building)
    assert built == [2, 4, 9]
    assert len(list(builds.cache_folder().iterdir())) == 3


def test_the_growth_is_of_the_largest_over_the_smallest(folder: Path) -> None:
    report = growth.run(judged.load(folder, "tiny"), [9, 2], building=quiet)
    assert report["queries"] == 4
    assert list(report["sizes"]) == ["2", "9"]
    p99 = {size: row["cpu_ms"]["p99"] for size, row in report["sizes"].items()}
    assert report["p99_growth"] == pytest.approx(p99["9"] / p99["2"])
