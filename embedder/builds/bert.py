"""A BERT encoder as an ONNX graph: token ids in, `last_hidden_state` out.

The contract is the model hubs': inputs `input_ids`, `attention_mask`, `token_type_ids`, int64, of
shape (batch, sequence). Layer order after Devlin et al. 2018
(post-norm, GELU by the error function).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt
from onnx import TensorProto

from embedder.builds.graph import MICROSOFT, Graph

FloatArray = npt.NDArray[np.float32]
Bytes = npt.NDArray[np.uint8]
INPUTS: Final = ("input_ids", "attention_mask", "token_type_ids")
BLOCK: Final = 32
"""Weights that share one scale in 4-bit form."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of an encoder."""

    hidden: int
    heads: int
    layers: int
    norm_epsilon: float


class Weights(Protocol):
    """Where weights come from.

    Names: `word`, `position`, `type`, `norm`; of a layer `N.query`, `N.key`, `N.value`,
    `N.attended`, `N.attended_norm`, `N.inner`, `N.outer`, `N.outer_norm`.
    """

    def matrix(self, name: str) -> FloatArray:
        """Shape (out, in)."""

    def bias(self, name: str) -> FloatArray:
        """Shape (out)."""

    def scale(self, name: str) -> FloatArray:
        """A norm's gain, shape (hidden)."""

    def blocks(self, name: str) -> tuple[FloatArray, Bytes] | None:
        """Scales (out, in / BLOCK) and numbers 0..15 (out, in), which mean (n - 8) * scale.

        None: the weights are not in 4-bit form.
        """


class Encoder:
    """Writes one encoder."""

    def __init__(self, shape: Shape, weights: Weights) -> None:
        self._shape = shape
        self._weights = weights
        self._graph = Graph()

    def save(self, path: Path) -> None:
        """Write the graph to a file."""
        graph, shape = self._graph, self._shape
        mask = graph.node("Cast", ["attention_mask"], "mask", to=TensorProto.INT32)
        x = self._embeddings()
        for layer in range(shape.layers):
            x = self._attention(x, mask, f"{layer}")
            x = self._feed_forward(x, f"{layer}")
        graph.node("Identity", [x], "last_hidden_state")
        axes = ("batch", "sequence", shape.hidden)
        graph.save(path, inputs=INPUTS, output="last_hidden_state", shape=axes)

    def _embeddings(self) -> str:
        graph, weights = self._graph, self._weights
        types = graph.constant("type", weights.matrix("type"))
        kind = graph.node("Gather", [types, "token_type_ids"], "type_found")
        size = graph.node("Shape", ["input_ids"], "size", start=1, end=2)
        places = graph.constant("position", weights.matrix("position"))
        place = graph.node("Slice", [places, graph.ints(0), size, graph.ints(0)], "place")
        both = graph.node("Add", [self._words(), kind], "word_and_type")
        return self._norm(graph.node("Add", [both, place], "embedded"), "norm")

    def _words(self) -> str:
        graph = self._graph
        blocks = self._weights.blocks("word")
        if blocks is None:
            table = graph.constant("word", self._weights.matrix("word"))
            return graph.node("Gather", [table, "input_ids"], "word_found")
        scales, numbers = blocks
        zeros = np.full(scales.shape, 8, np.uint8)
        inputs = [
            graph.nibbles("word", numbers),
            "input_ids",
            graph.constant("word_scales", scales),
            graph.nibbles("word_zeros", zeros),
        ]
        return graph.node(
            "GatherBlockQuantized",
            inputs,
            "word_found",
            domain=MICROSOFT,
            block_size=BLOCK,
            quantize_axis=1,
            gather_axis=0,
        )

    def _attention(self, x: str, mask: str, layer: str) -> str:
        graph, weights = self._graph, self._weights
        parts = ("query", "key", "value")
        projected = [self._product(x, f"{layer}.{part}") for part in parts]
        bias = np.concatenate([weights.bias(f"{layer}.{part}") for part in parts])
        attended = graph.node(
            "MultiHeadAttention",
            [*projected, graph.constant(f"{layer}.qkv_bias", bias), mask],
            f"{layer}.context",
            domain=MICROSOFT,
            num_heads=self._shape.heads,
        )
        out = self._linear(attended, f"{layer}.attended")
        return self._norm(
            graph.node("Add", [out, x], f"{layer}.attended_sum"), f"{layer}.attended_norm"
        )

    def _feed_forward(self, x: str, layer: str) -> str:
        graph = self._graph
        inner = self._linear(x, f"{layer}.inner")
        inner = graph.node("Gelu", [inner], f"{layer}.gelu", approximate="none")
        outer = self._linear(inner, f"{layer}.outer")
        return self._norm(
            graph.node("Add", [outer, x], f"{layer}.outer_sum"), f"{layer}.outer_norm"
        )

    def _product(self, x: str, name: str) -> str:
        graph = self._graph
        blocks = self._weights.blocks(name)
        if blocks is None:
            matrix = graph.constant(f"{name}.weight", self._weights.matrix(name).T)
            return graph.node("MatMul", [x, matrix], f"{name}.product")
        scales, numbers = blocks
        out, width = numbers.shape
        packed = (numbers[:, 0::2] | (numbers[:, 1::2] << 4)).astype(np.uint8)
        weight = packed.reshape(out, width // BLOCK, BLOCK // 2)
        inputs = [x, graph.constant(f"{name}.weight", weight)]
        return graph.node(
            "MatMulNBits",
            [*inputs, graph.constant(f"{name}.scales", scales)],
            f"{name}.product",
            domain=MICROSOFT,
            K=width,
            N=out,
            bits=4,
            block_size=BLOCK,
        )

    def _linear(self, x: str, name: str) -> str:
        bias = self._graph.constant(f"{name}.bias", self._weights.bias(name))
        return self._graph.node("Add", [self._product(x, name), bias], f"{name}.out")

    def _norm(self, x: str, name: str) -> str:
        graph, weights = self._graph, self._weights
        gain = graph.constant(f"{name}.gain", weights.scale(name))
        bias = graph.constant(f"{name}.bias", weights.bias(name))
        return graph.node(
            "LayerNormalization",
            [x, gain, bias],
            f"{name}.out",
            axis=-1,
            epsilon=self._shape.norm_epsilon,
        )
