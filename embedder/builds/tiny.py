"""A tiny model for fast tests: a real graph, a real tokenizer, random weights, no meaning.

Texts that share pairs of letters come out alike, which is enough to tell right from wrong.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from string import ascii_lowercase
from typing import Any, Final

import numpy as np
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from embedder.builds.bert import Bytes, Encoder, FloatArray, Shape

HIDDEN: Final = 32
INNER: Final = 64
WINDOW: Final = 64
SPECIAL: Final = ("<s>", "<pad>", "</s>")
SHAPE: Final = Shape(hidden=HIDDEN, heads=2, layers=2, norm_epsilon=1e-5)


def tokenizer() -> Tokenizer:
    """Bytes, and pairs of small letters; nothing is unknown to it."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [(first, second) for first in ascii_lowercase for second in ascii_lowercase]
    vocabulary = [*SPECIAL, *letters, *(first + second for first, second in merges)]
    made = Tokenizer(models.BPE({text: n for n, text in enumerate(vocabulary)}, merges))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    made.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return made


class _Random:
    """Weights from a generator seeded by their name: the same on every machine."""

    def __init__(self, vocabulary: int) -> None:
        self._rows = {"word": vocabulary, "position": WINDOW, "type": 1}

    def matrix(self, name: str) -> FloatArray:
        part = name.partition(".")[2]
        rows = self._rows.get(name, INNER if part == "inner" else HIDDEN)
        columns = INNER if part == "outer" else HIDDEN
        # Bits of a hash, as the random generators of numpy may change between releases.
        count = rows * columns
        raw = hashlib.shake_128(name.encode()).digest(count * 2)
        even = np.frombuffer(raw, "<u2").astype(np.float32) / np.float32(65_536) - np.float32(0.5)
        size = np.float32(1.0 if name == "word" else 0.02 if name in self._rows else 0.1)
        return (even * size).reshape(rows, columns)

    def bias(self, name: str) -> FloatArray:
        return np.zeros(INNER if name.endswith("inner") else HIDDEN, np.float32)

    def scale(self, name: str) -> FloatArray:  # noqa: ARG002  # all alike
        return np.ones(HIDDEN, np.float32)

    def blocks(self, name: str) -> tuple[FloatArray, Bytes] | None:  # noqa: ARG002
        return None


def write(folder: Path) -> dict[str, Any]:
    """Write `model.onnx` and `tokenizer.json`.

    Returns:
        What `model.json` should say.
    """
    made = tokenizer()
    made.save(str(folder / "tokenizer.json"))
    Encoder(SHAPE, _Random(made.get_vocab_size())).save(folder / "model.onnx")
    return {
        "dims": HIDDEN,
        "pooling": "mean",
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
        "window_tokens": WINDOW,
        "pad_id": 1,
    }
