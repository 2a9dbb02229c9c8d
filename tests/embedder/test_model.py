from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper

from embedder.errors import InferenceFailed, ModelInvalid
from embedder.model import Model, pooled, quantized
from tests.embedder.world import copied

TOKENS = np.array([[[1.0, 2.0], [3.0, 6.0], [50.0, 90.0]]], np.float32)
MASK = np.array([[1, 1, 0]], np.int64)


@pytest.mark.parametrize(
    ("pooling", "vector"), [("mean", [2.0, 4.0]), ("cls", [1.0, 2.0]), ("last", [3.0, 6.0])]
)
def test_pooling_leaves_the_filling_out(pooling: str, vector: list[float]) -> None:
    assert pooled(TOKENS, MASK, pooling).tolist() == [vector]


def test_pooling_of_one_vector_a_text_is_a_mistake_that_says_so() -> None:
    with pytest.raises(InferenceFailed, match="2 axes"):
        pooled(TOKENS[0], MASK, "mean")


def test_int8_is_scaled_to_the_largest() -> None:
    found = quantized(np.array([[0.5, -0.25, 0.001], [0.0, 0.0, 0.0]], np.float32))
    assert found.tolist() == [[127, -64, 0], [0, 0, 0]]  # 63.5 rounds to even


@given(st.lists(st.floats(-1, 1, width=32), min_size=8, max_size=64), st.floats(0.01, 100))
def test_int8_keeps_the_direction_at_any_length(values: list[float], factor: float) -> None:
    vector = np.array([values], np.float32)
    if np.abs(vector).max() < 1e-3:
        return
    found = quantized(vector * np.float32(factor)).astype(np.float64)[0]
    assert np.abs(found).max() == 127
    exact = vector.astype(np.float64)[0]
    assert found @ exact / np.linalg.norm(found) / np.linalg.norm(exact) > 0.999


def test_a_vector_does_not_depend_on_its_batch_mates(model: Model) -> None:
    texts = [model.tokenizer.passage(text) for text in ("a", "some longer text here", "b c d e")]
    together = model.embed(texts)
    for text, vector in zip(texts, together, strict=True):
        alone = np.frombuffer(model.embed([text])[0], np.int8).astype(int)
        assert np.abs(alone - np.frombuffer(vector, np.int8)).max() <= 1


def test_queries_and_passages_differ_by_their_prefix(model: Model) -> None:
    text = "the same words"
    query, passage = model.tokenizer.query(text), model.tokenizer.passage(text)
    assert query.ids != passage.ids
    assert len(query) == model.tokenizer.count("query: " + text) + 2


def test_long_texts_are_cut_at_the_window_and_say_so(model: Model) -> None:
    long = model.tokenizer.passage("word " * 500)
    assert (len(long), long.truncated) == (64, True)
    assert not model.tokenizer.passage("word").truncated


def test_an_empty_text_has_a_vector(model: Model) -> None:
    assert len(model.embed([model.tokenizer.query("")])[0]) == 32


def described(tiny: Path, to: Path, **changes: Any) -> Path:
    folder = copied(tiny, to)
    said = json.loads((folder / "model.json").read_text()) | changes
    (folder / "model.json").write_text(json.dumps(said))
    return folder


def test_the_id_changes_with_what_a_vector_depends_on(tiny: Path, tmp_path: Path) -> None:
    first = Model(tiny).id
    assert first.startswith("tiny@")
    assert Model(copied(tiny, tmp_path / "same")).id == first
    for n, change in enumerate(({"query_prefix": "q: "}, {"pooling": "cls"})):
        assert Model(described(tiny, tmp_path / str(n), **change)).id != first


def test_wrong_dims_are_found_at_the_start(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match=r"gave \(1, 32\), not 48 dims"):
        Model(described(tiny, tmp_path / "m", dims=48))


def test_pooling_that_the_graph_cannot_give_is_found_at_the_start(
    tiny: Path, tmp_path: Path
) -> None:
    with pytest.raises(ModelInvalid, match="does not fit"):
        Model(described(tiny, tmp_path / "m", pooling="none"))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.999])
@pytest.mark.parametrize("digests", [True, False])
def test_a_truncated_graph_is_found_at_the_start(
    tiny: Path, tmp_path: Path, share: float, digests: bool
) -> None:
    changes: dict[str, Any] = {} if digests else {"sha256": {}}
    folder = described(tiny, tmp_path / "m", **changes)
    whole = (folder / "model.onnx").read_bytes()
    (folder / "model.onnx").write_bytes(whole[: int(len(whole) * share)])
    told = "is not the file that model.json describes" if digests else "cannot be loaded"
    with pytest.raises(ModelInvalid, match=told):
        Model(folder)


def test_a_truncated_tokenizer_is_found_at_the_start(tiny: Path, tmp_path: Path) -> None:
    folder = described(tiny, tmp_path / "m", sha256={})
    whole = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(whole[: len(whole) // 2])
    with pytest.raises(ModelInvalid, match=r"tokenizer\.json cannot be read"):
        Model(folder)


def test_a_window_that_holds_only_the_prefix_is_refused(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match="holds only the prefix"):
        Model(described(tiny, tmp_path / "m", window_tokens=5))


def decoder(path: Path, extra: str | None = None) -> None:
    """A graph with a decoder's inputs; a token's vector is its position and the past's length."""
    names = ["input_ids", "attention_mask", "position_ids"] + ([extra] if extra else [])
    inputs = [helper.make_tensor_value_info(n, TensorProto.INT64, ["b", "s"]) for n in names]
    past = helper.make_tensor_value_info(
        "past_key_values.0.key", TensorProto.FLOAT, ["b", 2, "past", 4]
    )
    nodes = [
        helper.make_node("Cast", ["position_ids"], ["place"], to=TensorProto.FLOAT),
        helper.make_node("Shape", ["past_key_values.0.key"], ["length"], start=2, end=3),
        helper.make_node("Cast", ["length"], ["length_f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", ["place", "length_f"], ["none"]),
        helper.make_node("Unsqueeze", ["place", "axis"], ["first"]),
        helper.make_node("Unsqueeze", ["none", "axis"], ["second"]),
        helper.make_node("Concat", ["first", "second"], ["last_hidden_state"], axis=2),
    ]
    out = helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, ["b", "s", 2])
    axis = helper.make_tensor("axis", TensorProto.INT64, [1], [2])
    graph = helper.make_graph(nodes, "decoder", [*inputs, past], [out], [axis])
    opset = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opset, ir_version=8), path)


@pytest.fixture
def decoder_folder(tiny: Path, tmp_path: Path) -> Callable[..., Path]:
    def make(extra: str | None = None) -> Path:
        changes = {"dims": 2, "pooling": "last", "sha256": {}, "known": None}
        folder = described(tiny, tmp_path / "decoder", **changes)
        decoder(folder / "model.onnx", extra)
        return folder

    return make


def test_a_decoder_gets_positions_and_an_empty_past(decoder_folder: Callable[..., Path]) -> None:
    model = Model(decoder_folder())
    vectors = model.embed_float([model.tokenizer.query(t) for t in ("one", "one two three")])
    assert vectors.tolist() == [[1.0, 0.0], [1.0, 0.0]]  # the last position, of length 1


def test_a_graph_with_an_unknown_input_says_which(decoder_folder: Callable[..., Path]) -> None:
    with pytest.raises(ModelInvalid, match="unknown input pixel_values"):
        Model(decoder_folder("pixel_values"))
