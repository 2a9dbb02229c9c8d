from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from embedder.catalog import read_spec
from embedder.errors import ModelInvalid


def folder_with(path: Path, files: dict[str, Any]) -> Path:
    for name, value in {"model.onnx": "", "tokenizer.json": "", **files}.items():
        if value is None:
            continue
        place = path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_known_model_needs_no_description(tmp_path: Path) -> None:
    spec = read_spec(folder_with(tmp_path / "multilingual-e5-small", {"model.onnx": "x"}))
    assert (spec.name, spec.dims, spec.pooling) == ("multilingual-e5-small", 384, "mean")
    assert (spec.query_prefix, spec.passage_prefix) == ("query: ", "passage: ")
    assert (spec.window_tokens, spec.pad_id) == (512, 1)


def test_qwen3_is_known_under_its_export_s_name(tmp_path: Path) -> None:
    files = {"model.onnx": None, "onnx/model_int8.onnx": "x", "config.json": {"hidden_size": 9}}
    spec = read_spec(folder_with(tmp_path / "Qwen3-Embedding-0.6B-ONNX", files))
    assert (spec.name, spec.dims, spec.pooling) == ("Qwen3-Embedding-0.6B", 1024, "last")
    assert spec.query_prefix.endswith("\nQuery:")
    assert spec.passage_prefix == ""
    assert spec.file == "onnx/model_int8.onnx"


def test_any_export_of_a_hub_describes_itself(tmp_path: Path) -> None:
    files = {
        "config.json": {"hidden_size": 48, "max_position_embeddings": 8_192, "pad_token_id": 3},
        "1_Pooling/config.json": {
            "pooling_mode_cls_token": True,
            "pooling_mode_mean_tokens": False,
        },
        "config_sentence_transformers.json": {"prompts": {"query": "find: ", "document": "text: "}},
        "sentence_bert_config.json": {"max_seq_length": 256},
    }
    spec = read_spec(folder_with(tmp_path / "anything", files))
    assert (spec.name, spec.dims, spec.pooling) == ("anything", 48, "cls")
    assert (spec.query_prefix, spec.passage_prefix) == ("find: ", "text: ")
    assert (spec.window_tokens, spec.pad_id) == (256, 3)


def test_a_hub_s_long_window_is_cut_and_our_own_word_is_not(tmp_path: Path) -> None:
    files: dict[str, Any] = {"config.json": {"hidden_size": 48, "max_position_embeddings": 32_768}}
    files["model.json"] = {"pooling": "last"}
    assert read_spec(folder_with(tmp_path, files)).window_tokens == 2_048
    files["model.json"] = {"pooling": "last", "window_tokens": 4_096}
    assert read_spec(folder_with(tmp_path, files)).window_tokens == 4_096


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"model.json": {"dims": 4}}, "does not say its pooling"),
        ({}, "does not say its dims and pooling"),
        ({"model.json": {"dims": 4, "pooling": "max"}}, "pooling is 'max'"),
        ({"model.json": {"dims": "4", "pooling": "cls"}}, "dims is '4'"),
        ({"model.json": {"dims": 0, "pooling": "cls"}}, "dims is 0"),
        ({"model.json": "{"}, "cannot be read"),
        ({"model.json": "[1]"}, "is not an object"),
        ({"model.json": {"dims": 4, "pooling": "cls", "known": {"text": "x"}}}, "known is not"),
        ({"tokenizer.json": None, "model.json": {"dims": 4, "pooling": "cls"}}, "no tokenizer"),
        ({"model.onnx": None, "model.json": {"dims": 4, "pooling": "cls"}}, "has none of"),
        ({"model.json": {"dims": 4, "pooling": "cls", "file": "m.onnx"}}, "has none of m.onnx"),
    ],
)
def test_a_folder_that_lacks_something_says_what(
    tmp_path: Path, files: dict[str, Any], told: str
) -> None:
    with pytest.raises(ModelInvalid, match=told):
        read_spec(folder_with(tmp_path, files))


def test_a_missing_folder_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(ModelInvalid, match="there is no model folder") as raised:
        read_spec(tmp_path / "nowhere")
    assert "memlane model build" in raised.value.hint
