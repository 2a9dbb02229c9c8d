"""A judged folder is read as documented, and a broken one is refused by file and line."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from golden import judged
from service.errors import SetupError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with gzip.open(tmp_path / "small.corpus.ndjson.gz", "wt", encoding="utf-8") as file:
        file.write(
            '{"kind": "note", "ref": "a", "title": "包裹"}\n\n{"kind": "note", "ref": "b"}\n'
        )
    (tmp_path / "small.queries.ndjson").write_text(
        '{"id": "cjk-two-1", "query": "包裹"}\n{"id": "plain", "query": "b"}\n'
        '{"id": "cjk-two-2", "query": "unjudged"}\n',
        encoding="utf-8",
    )
    (tmp_path / "small.qrels.tsv").write_text(
        "cjk-two-1\ta\t2\ncjk-two-1\tnote:b\t1\nplain\tb\t1\ncjk-two-2\tb\t0\n", encoding="utf-8"
    )
    return tmp_path


def test_a_set_is_loaded_with_classes_and_grades(folder: Path) -> None:
    small = judged.load(folder, "small")
    assert judged.names(folder) == ["small"]
    assert [query.family for query in small.queries] == ["cjk-two", "plain"]
    assert small.grades == {"cjk-two-1": {"a": 2, "note:b": 1}, "plain": {"b": 1}}


def test_a_query_without_a_relevant_document_is_left_out(folder: Path) -> None:
    assert "cjk-two-2" not in {query.id for query in judged.load(folder, "small").queries}


def test_a_gzipped_corpus_gives_its_lines_without_blanks(folder: Path) -> None:
    lines = list(judged.lines(judged.load(folder, "small").corpus))
    assert [b'"a"' in lines[0], b'"b"' in lines[1], len(lines)] == [True, True, 2]


def test_a_plain_corpus_is_preferred_to_nothing(folder: Path) -> None:
    (folder / "other.corpus.ndjson").write_text("{}\n", encoding="utf-8")
    assert judged.corpus_path(folder, "other").name == "other.corpus.ndjson"


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("small.queries.ndjson", '{"id": "x"}\n', "line 1"),
        ("small.queries.ndjson", '{"id": 3, "query": "x"}\n', "line 1"),
        ("small.qrels.tsv", "q\ta\t1\nq a 1\n", "line 2"),
        ("small.qrels.tsv", "q\ta\t999\n", "above 30"),
    ],
)
def test_a_broken_line_is_named(folder: Path, name: str, text: str, said: str) -> None:
    (folder / name).write_text(text, encoding="utf-8")
    with pytest.raises(SetupError, match=said):
        judged.load(folder, "small")


def test_a_missing_folder_set_or_corpus_is_a_setup_error(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="not a folder"):
        judged.names(tmp_path / "nowhere")
    with pytest.raises(SetupError, match="cannot be read"):
        judged.load(folder, "absent")
    (folder / "small.corpus.ndjson.gz").unlink()
    with pytest.raises(SetupError, match="has no small"):
        judged.load(folder, "small")


def test_a_damaged_gzip_is_a_setup_error(folder: Path) -> None:
    path = folder / "small.corpus.ndjson.gz"
    path.write_bytes(path.read_bytes()[:-12])
    with pytest.raises(SetupError, match="cannot be read"):
        list(judged.lines(path))
