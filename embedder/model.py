"""One loaded model: token ids in, int8 vectors out."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from embedder.catalog import ModelSpec, read_spec
from embedder.errors import InferenceFailed, ModelInvalid
from embedder.runtime import Device, Runtime, inputs, open_runtime
from embedder.tokens import TextTokenizer, Tokens

FloatArray = npt.NDArray[np.float32]
OUTPUTS: Final = ("sentence_embedding", "last_hidden_state", "token_embeddings")
TYPES: Final = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
READ_BYTES: Final = 1 << 20


class Model:
    """A model that is ready to run. Safe to call from several threads.

    Attributes:
        spec: what its folder says.
        runtime: what it runs on.
        tokenizer: its own.
        id: `NAME@` and 12 hex digits; vectors of different ids are never compared.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: Device = "auto",
        require_gpu: bool = False,
        threads: int = 1,
    ) -> None:
        """Load a folder and run one text through it.

        Args:
            folder: an ONNX folder; see docs/EMBEDDER.md.
            device: where to run.
            require_gpu: refuse anything but CUDA.
            threads: threads of one run.

        Raises:
            ModelInvalid: missing, damaged, or not what it says.
            SetupError: this machine lacks something.
        """
        self.spec: ModelSpec = read_spec(folder)
        digests = file_digests(self.spec)
        self.id = f"{self.spec.name}@{_identity(self.spec, digests)[:12]}"
        self.tokenizer = TextTokenizer(self.spec)
        self.runtime: Runtime = open_runtime(
            self.spec.model_path, device=device, require_gpu=require_gpu, threads=threads
        )
        self._inputs = inputs(self.runtime.session)
        self._output = self._pick_output()
        if "input_ids" not in self._inputs:
            raise ModelInvalid(f"{self.spec.model_path} has no input named input_ids")
        self._verify()

    def embed(self, batch: Sequence[Tokens]) -> list[bytes]:
        """The vectors of some texts, in their order.

        Args:
            batch: at least one text; padded to the longest.

        Returns:
            `dims` bytes each: int8, x / max|x| * 127, rounded.

        Raises:
            InferenceFailed: the runtime failed.
        """
        return [row.tobytes() for row in quantized(self.embed_float(batch))]

    def embed_float(self, batch: Sequence[Tokens]) -> FloatArray:
        """The vectors of some texts before rounding, shape (texts, dims), of length 1.

        Raises:
            InferenceFailed: the runtime failed.
        """
        ids, mask = padded(batch, self.spec.pad_id)
        feed = self._feed(ids, mask)
        try:
            [output] = self.runtime.session.run([self._output], feed)
        except Exception as error:  # onnxruntime's exceptions share no base but this
            raise InferenceFailed(f"onnxruntime failed: {type(error).__name__}") from error
        vectors = pooled(np.asarray(output, np.float32), mask, self.spec.pooling)
        if vectors.shape != (len(batch), self.spec.dims):
            raise InferenceFailed(f"the graph gave {vectors.shape}, not {self.spec.dims} dims")
        if not np.isfinite(vectors).all():
            raise InferenceFailed("the graph gave a vector that is not finite")
        length = np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        unit: FloatArray = (vectors / length).astype(np.float32)
        return unit

    def _pick_output(self) -> str:
        names = [found.name for found in self.runtime.session.get_outputs()]
        wanted = OUTPUTS if self.spec.pooling == "none" else OUTPUTS[1:]
        for name in wanted:
            if name in names:
                return name
        raise ModelInvalid(
            f"{self.spec.model_path} has outputs {', '.join(names)}; pooling"
            f" {self.spec.pooling!r} needs one of {', '.join(wanted)}"
        )

    def _feed(self, ids: npt.NDArray[np.int64], mask: npt.NDArray[np.int64]) -> dict[str, Any]:
        """All inputs that the graph asks for; decoders ask for positions and an empty past."""
        made: dict[str, Any] = {
            "input_ids": ids,
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(ids),
            "position_ids": np.maximum(np.cumsum(mask, axis=1) - 1, 0),
        }
        feed = {}
        for name, (kind, shape) in self._inputs.items():
            if name in made:
                feed[name] = made[name]
            elif name.startswith("past_key_values."):
                heads, width = shape[1], shape[3]
                feed[name] = np.zeros((len(ids), heads, 0, width), TYPES[kind])
            else:
                raise ModelInvalid(f"{self.spec.model_path} has an unknown input {name}")
        return feed

    def _verify(self) -> None:
        """One text, so that what is wrong with the graph shows at the start."""
        try:
            self.embed([self.tokenizer.query("memlane")])
        except InferenceFailed as error:
            raise ModelInvalid(
                f"{self.spec.model_path} does not fit its description: {error.detail}"
            ) from error


def padded(
    batch: Sequence[Tokens], pad_id: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Ids and mask, shape (texts, longest). Shorter texts are filled at their end.

    Also for models with last-token pooling: attention that only looks back gives the last token
    the same vector wherever the filling is.
    """
    longest = max(map(len, batch))
    ids = np.full((len(batch), longest), pad_id, np.int64)
    mask = np.zeros((len(batch), longest), np.int64)
    for row, tokens in enumerate(batch):
        ids[row, : len(tokens)] = tokens.ids
        mask[row, : len(tokens)] = 1
    return ids, mask


def pooled(output: FloatArray, mask: npt.NDArray[np.int64], pooling: str) -> FloatArray:
    """One vector a text from token vectors of shape (texts, longest, dims)."""
    if pooling == "none":
        return output
    if output.ndim != 3:
        raise InferenceFailed(f"the graph gave {output.ndim} axes, not token vectors")
    found: FloatArray
    if pooling == "cls":
        found = output[:, 0]
    elif pooling == "last":
        found = output[np.arange(len(output)), mask.sum(axis=1) - 1]
    else:
        weights = mask[..., None].astype(np.float32)
        found = (output * weights).sum(axis=1) / weights.sum(axis=1)
    return found


def quantized(vectors: FloatArray) -> npt.NDArray[np.int8]:
    """Vectors as int8: x / max|x| * 127, rounded; cosine over them needs no scale."""
    peak = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), np.float32(1e-12))
    rounded: npt.NDArray[np.int8] = np.rint(vectors / peak * 127).astype(np.int8)
    return rounded


def file_digests(spec: ModelSpec) -> dict[str, str]:
    """SHA-256 of the files that a vector depends on, name to hex.

    Raises:
        ModelInvalid: a file is not what `model.json` says.
    """
    parts = sorted(spec.folder.glob(f"{spec.file}*"))  # large graphs keep their weights beside
    found = {str(path.relative_to(spec.folder)): _sha256(path) for path in parts}
    found["tokenizer.json"] = _sha256(spec.tokenizer_path)
    for name, digest in spec.sha256.items():
        if name not in found:
            raise ModelInvalid(f"{spec.folder} lacks {name}")
        if found[name] != digest:
            raise ModelInvalid(
                f"{spec.folder / name} is not the file that model.json describes",
                hint="It is truncated or was changed: fetch or build it again.",
            )
    return found


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while block := file.read(READ_BYTES):
                digest.update(block)
    except OSError as error:
        raise ModelInvalid(f"{path} cannot be read: {error}") from error
    return digest.hexdigest()


def _identity(spec: ModelSpec, digests: dict[str, str]) -> str:
    said = [*sorted(digests.items()), spec.pooling, spec.query_prefix, spec.passage_prefix]
    return hashlib.sha256(repr([*said, spec.dims, spec.window_tokens]).encode()).hexdigest()
