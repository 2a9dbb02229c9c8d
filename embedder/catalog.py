"""What a model folder says about itself: dims, pooling, prefixes, window.

Looked for in this order, field by field: the folder's `model.json` (ours), what this catalog knows
of the name, then the files that the model hubs' exports carry (`config.json`,
`1_Pooling/config.json`, `config_sentence_transformers.json`, `sentence_bert_config.json`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from embedder.errors import ModelInvalid

Pooling = Literal["mean", "cls", "last", "none"]
"""How token vectors become one: their mean over the mask, the first, the last; `none`: the graph
does it."""

MODEL_JSON = "model.json"
FILES = ("model.onnx", "onnx/model.onnx", "onnx/model_int8.onnx", "onnx/model_quantized.onnx")
WINDOW_MOST = 2_048
"""Longest window taken from a hub's files: a passage this long says too much for one vector, and
attention's cost grows with its square. `model.json` may say more."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model folder, described.

    Attributes:
        folder: where it is.
        file: the ONNX file, relative to `folder`.
        name: without version or digest.
        dims: length of a vector.
        pooling: how token vectors become one.
        query_prefix: put before queries, as the model was trained.
        passage_prefix: put before passages.
        window_tokens: most tokens of one text, prefix and special tokens included.
        pad_id: token id that fills the end of a shorter text.
        sha256: what `model.json` says of its files, name to hex digest.
        known: a text and its int8 vector, to verify a machine by; None when the folder has none.
    """

    folder: Path
    file: str
    name: str
    dims: int
    pooling: Pooling
    query_prefix: str
    passage_prefix: str
    window_tokens: int
    pad_id: int
    sha256: dict[str, str]
    known: tuple[str, bytes] | None

    @property
    def model_path(self) -> Path:
        """The ONNX file."""
        return self.folder / self.file

    @property
    def tokenizer_path(self) -> Path:
        """The tokenizer."""
        return self.folder / "tokenizer.json"


KNOWN: dict[str, dict[str, Any]] = {
    "multilingual-e5-small": {
        "dims": 384,
        "pooling": "mean",
        "query_prefix": "query: ",
        "passage_prefix": "passage: ",
        "window_tokens": 512,
        "pad_id": 1,
    },
    "Qwen3-Embedding-0.6B": {
        "dims": 1024,
        "pooling": "last",
        "query_prefix": (
            "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
            "Query:"
        ),
        "passage_prefix": "",
        "window_tokens": 2_048,
        "pad_id": 151643,
    },
    "use-multilingual-v3": {
        "dims": 512,
        "pooling": "none",
        "query_prefix": "",
        "passage_prefix": "",
        "window_tokens": 256,
        "pad_id": 0,
    },
}
"""The models that we know: multilingual-e5-small (model card of intfloat/multilingual-e5-small),
Qwen3-Embedding-0.6B (model card of Qwen/Qwen3-Embedding-0.6B; its window is 32,768, cut here for
the same reason as `WINDOW_MOST`), Universal Sentence Encoder multilingual v3 (which has no window
of its own)."""


def read_spec(folder: Path) -> ModelSpec:
    """Describe a folder.

    Raises:
        ModelInvalid: it is not there, has no ONNX file or tokenizer, or does not say its pooling.
    """
    if not folder.is_dir():
        raise ModelInvalid(
            f"there is no model folder {folder}",
            hint="`memlane model build NAME` makes one; docs/EMBEDDER.md says how to get others.",
        )
    own = _json(folder / MODEL_JSON)
    known = _known(own.get("name", folder.resolve().name))
    said = {**_hub(folder), **known, **own}
    missing = [key for key in ("dims", "pooling") if key not in said]
    if missing:
        raise ModelInvalid(
            f"{folder} does not say its {' and '.join(missing)}",
            hint=f"Write them into {folder / MODEL_JSON}; docs/EMBEDDER.md shows one.",
        )
    if not (folder / "tokenizer.json").is_file():
        raise ModelInvalid(f"{folder} has no tokenizer.json")
    return ModelSpec(
        folder=folder,
        file=_file(folder, said),
        name=_text(said, "name", folder.resolve().name),
        dims=_positive(said, "dims"),
        pooling=_pooling(said["pooling"]),
        query_prefix=_text(said, "query_prefix", ""),
        passage_prefix=_text(said, "passage_prefix", ""),
        window_tokens=_positive(said, "window_tokens", 512),
        pad_id=_positive(said, "pad_id", 0, least=0),
        sha256={str(name): str(digest) for name, digest in said.get("sha256", {}).items()},
        known=_vector(said),
    )


def _json(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelInvalid(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise ModelInvalid(f"{path} is not an object")
    return found


def _known(name: object) -> dict[str, Any]:
    for known, said in KNOWN.items():
        if str(name).lower().removesuffix("-onnx") == known.lower():
            return {"name": known, **said}
    return {}


def _hub(folder: Path) -> dict[str, Any]:
    """What the files of a hub's export say, in our words."""
    said: dict[str, Any] = {}
    config = _json(folder / "config.json")
    for ours, theirs in (("dims", "hidden_size"), ("pad_id", "pad_token_id")):
        if isinstance(config.get(theirs), int):
            said[ours] = config[theirs]
    window = _json(folder / "sentence_bert_config.json").get("max_seq_length") or config.get(
        "max_position_embeddings"
    )
    if isinstance(window, int):
        said["window_tokens"] = min(window, WINDOW_MOST)
    pooling = _json(folder / "1_Pooling" / "config.json")
    for ours, theirs in (("mean", "mean_tokens"), ("cls", "cls_token"), ("last", "lasttoken")):
        if pooling.get(f"pooling_mode_{theirs}") is True:
            said["pooling"] = ours
    prompts = _json(folder / "config_sentence_transformers.json").get("prompts")
    if isinstance(prompts, dict):
        said["query_prefix"] = prompts.get("query") or ""
        said["passage_prefix"] = prompts.get("passage") or prompts.get("document") or ""
    return said


def _file(folder: Path, said: dict[str, Any]) -> str:
    wanted = [str(said["file"])] if "file" in said else list(FILES)
    for name in wanted:
        if (folder / name).is_file():
            return name
    raise ModelInvalid(f"{folder} has none of {', '.join(wanted)}")


def _positive(said: dict[str, Any], key: str, default: int | None = None, least: int = 1) -> int:
    value = said.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ModelInvalid(f"{key} is {value!r}, not a whole number of at least {least}")
    return value


def _text(said: dict[str, Any], key: str, default: str) -> str:
    value = said.get(key, default)
    if not isinstance(value, str):
        raise ModelInvalid(f"{key} is {value!r}, not a text")
    return value


def _pooling(value: object) -> Pooling:
    for pooling in get_args(Pooling):
        if value == pooling:
            found: Pooling = pooling
            return found
    raise ModelInvalid(f"pooling is {value!r}, not one of {', '.join(get_args(Pooling))}")


def _vector(said: dict[str, Any]) -> tuple[str, bytes] | None:
    known = said.get("known")
    if known is None:
        return None
    try:
        return str(known["text"]), bytes.fromhex(known["vector"])
    except (KeyError, TypeError, ValueError) as error:
        raise ModelInvalid(f"known is not a text and a vector in hex: {error!r}") from error
