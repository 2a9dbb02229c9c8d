from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedder.builds.recipes import RECIPES, build
from embedder.cache import cache_folder, locate
from embedder.catalog import read_spec
from embedder.check import check_folder
from embedder.errors import BuildFailed, ModelInvalid
from embedder.model import Model
from embedder.models import main
from tests.embedder.world import copied

REAL = [name for name in RECIPES if name != "tiny"]


def test_a_build_is_the_same_every_time(tiny: Path, tmp_path: Path) -> None:
    build("tiny", tmp_path / "again")
    for name in ("model.onnx", "tokenizer.json", "model.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tiny / name).read_bytes()
    assert sum(path.stat().st_size for path in tiny.iterdir()) < 300_000


def test_what_is_built_is_kept(tiny: Path, tmp_path: Path) -> None:
    folder = copied(tiny, tmp_path / "tiny")
    before = (folder / "model.onnx").stat().st_mtime_ns
    assert not build("tiny", folder)
    assert (folder / "model.onnx").stat().st_mtime_ns == before


def test_what_is_damaged_is_built_again(tiny: Path, tmp_path: Path) -> None:
    folder = copied(tiny, tmp_path / "tiny")
    (folder / "model.onnx").write_bytes(b"half")
    assert build("tiny", folder)
    assert (folder / "model.onnx").read_bytes() == (tiny / "model.onnx").read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["tiny"]


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(BuildFailed, match="not built here"):
        build("tiny", tmp_path)
    assert (tmp_path / "notes.txt").read_text() == "mine"


def test_unknown_names_say_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(BuildFailed, match="no recipe for gpt") as raised:
        build("gpt", tmp_path / "m")
    assert "multilingual-e5-small" in raised.value.hint
    with pytest.raises(BuildFailed, match="no variant q2"):
        build("multilingual-e5-small", tmp_path / "m", variant="q2")


def test_names_are_found_where_they_are_built(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMLANE_MODELS", str(tmp_path))
    told = CliRunner().invoke(main, ["build", "tiny", "--json"])
    assert json.loads(told.stdout)["made"]
    assert locate("tiny") == cache_folder() / "tiny" == tmp_path / "tiny"
    assert locate(str(tiny)) == tiny
    assert locate("another") == Path("another")


def test_check_passes_what_was_built(tiny: Path) -> None:
    told = CliRunner().invoke(main, ["check", str(tiny), "--json"])
    assert told.exit_code == 0
    report = json.loads(told.stdout)
    assert report["ok"]
    assert (report["dims"], report["pooling"]) == (32, "mean")
    names = ["graph", "digests", "tokenizer", "batch", "window", "known vector", "meaning"]
    assert [test["name"] for test in report["tests"]] == names


@pytest.mark.parametrize(
    "change",
    [
        {"pooling": "cls"},
        {"query_prefix": "find me: "},
        {"known": {"text": "x", "vector": "00"}},
    ],
)
def test_check_finds_what_was_changed(
    tiny: Path, tmp_path: Path, change: dict[str, object]
) -> None:
    folder = copied(tiny, tmp_path / "m")
    said = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(said | change))
    wrong = [test.name for test in check_folder(folder).tests if not test.passed]
    assert "known vector" in wrong


def test_check_refuses_a_window_over_the_graph_s(tiny: Path, tmp_path: Path) -> None:
    folder = copied(tiny, tmp_path / "m")
    said = json.loads((folder / "model.json").read_text())
    (folder / "model.json").write_text(json.dumps(said | {"window_tokens": 100}))
    told = CliRunner().invoke(main, ["check", str(folder)])
    assert told.exit_code == 1
    assert "FAIL window" in told.stdout


@pytest.fixture(params=REAL)
def real(request: pytest.FixtureRequest) -> Path:
    folder = cache_folder() / str(request.param)
    try:
        read_spec(folder)
    except ModelInvalid:
        pytest.skip(f"not built: memlane model build {request.param}")
    return folder


SAID_TWICE = [
    ("How do I retry a failed request?", "如何重试失败的请求？"),
    ("The cat sleeps on the mat.", "Die Katze schläft auf der Matte."),
    ("Water boils at one hundred degrees.", "El agua hierve a cien grados."),
    ("The train leaves at noon.", "電車は正午に出発します。"),
]


def test_a_real_model_knows_a_sentence_in_another_language(real: Path) -> None:
    model = Model(real)
    texts = [text for column in zip(*SAID_TWICE, strict=True) for text in column]
    vectors = [model.embed_float([model.tokenizer.query(text)])[0] for text in texts]
    likeness = [[float(a @ b) for b in vectors[4:]] for a in vectors[:4]]
    assert [row.index(max(row)) for row in likeness] == [0, 1, 2, 3]


def test_a_real_model_passes_its_check(real: Path) -> None:
    report = check_folder(real)
    assert [test.told for test in report.tests if not test.passed] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL)
def test_real_models_are_built_from_their_packages(name: str, tmp_path: Path) -> None:
    build(name, tmp_path / name)
    assert check_folder(tmp_path / name).passed
