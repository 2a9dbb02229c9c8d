"""`memlane model check DIR`: does this folder do here what it should?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from embedder.errors import EmbedderError
from embedder.model import Model
from embedder.runtime import Device, inputs

COSINE_LEAST: Final = 0.999
"""Least likeness to the known vector: other CPUs and GPUs round differently, by far less."""
SOLO_LEAST: Final = 0.9999
ALIKE: Final = (
    "The writer replicates each change to the object store.",
    "Every change is copied to the object store by the writer.",
)
UNLIKE: Final = "Bake the bread for forty minutes at two hundred degrees."


@dataclass(frozen=True, slots=True)
class Test:
    """One thing that was looked at."""

    name: str
    passed: bool
    told: str


@dataclass(slots=True)
class Report:
    """What was found. A folder that cannot be loaded raises instead."""

    said: dict[str, Any]
    tests: list[Test] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong."""
        return all(test.passed for test in self.tests)


def check_folder(folder: Path, *, device: Device = "auto") -> Report:
    """Load a folder and try it.

    Loading checks the files' digests, the graph's inputs and output, its dims and the tokenizer.

    Raises:
        ModelInvalid: it cannot be loaded.
        SetupError: this machine lacks something.
    """
    model = Model(folder, device=device)
    spec = model.spec
    report = Report(
        {
            "model": model.id,
            "file": spec.file,
            "dims": spec.dims,
            "pooling": spec.pooling,
            "window_tokens": spec.window_tokens,
            "query_prefix": spec.query_prefix,
            "passage_prefix": spec.passage_prefix,
            "pad_id": spec.pad_id,
            "provider": model.runtime.provider,
            "one_text_a_run": model.runtime.alone,
        }
    )
    names = ", ".join(inputs(model.runtime.session))
    report.tests += [
        Test("graph", True, f"inputs {names}; {spec.dims} dims"),
        *(_tried(name, test, model) for name, test in TESTS.items()),
    ]
    return report


def _tried(name: str, test: Callable[[Model], tuple[bool, str]], model: Model) -> Test:
    try:
        passed, told = test(model)
    except EmbedderError as error:
        passed, told = False, error.detail
    return Test(name, passed, told)


def _digests(model: Model) -> tuple[bool, str]:
    count = len(model.spec.sha256)
    told = f"{count} files as model.json says" if count else "model.json lists none"
    return True, told


def _tokenizer(model: Model) -> tuple[bool, str]:
    tokenizer, window = model.tokenizer, model.spec.window_tokens
    empty, long = tokenizer.query(""), tokenizer.query("word " * window * 4)
    passed = len(long) == window and long.truncated and len(empty) < window
    told = f"{tokenizer.special_tokens} special tokens, room for {tokenizer.room} in {window}"
    return passed, told


def _batch(model: Model) -> tuple[bool, str]:
    """A text's vector must not depend on its batch mates (unless it is run alone)."""
    short, long = model.tokenizer.passage(ALIKE[0]), model.tokenizer.passage(UNLIKE * 3)
    if model.runtime.alone:
        return True, "dynamic quantization: one text a run"
    alone = model.embed_float([short])[0]
    likeness = float(alone @ model.embed_float([short, long])[0])
    told = f"cosine {likeness:.5f} alone and beside a longer text"
    if likeness >= SOLO_LEAST:
        return True, told
    return False, f"{told}: wrong pad_id or pooling, or the mask is not used"


def _window(model: Model) -> tuple[bool, str]:
    model.embed([model.tokenizer.passage("word " * model.spec.window_tokens)])
    return True, f"{model.spec.window_tokens} tokens run"


def _known(model: Model) -> tuple[bool, str]:
    if model.spec.known is None:
        return True, "model.json has none"
    text, vector = model.spec.known
    if len(vector) != model.spec.dims:
        return False, f"it has {len(vector)} dims, not {model.spec.dims}"
    known = np.frombuffer(vector, np.int8).astype(np.float32)
    found = model.embed_float([model.tokenizer.query(text)])[0]
    likeness = float(found @ known / np.linalg.norm(known))
    return likeness >= COSINE_LEAST, f"cosine {likeness:.5f}"


def _meaning(model: Model) -> tuple[bool, str]:
    """Two ways to say one thing must be nearer than two things: wrong pooling shows here."""
    first, second, other = (
        model.embed_float([model.tokenizer.passage(text)])[0] for text in (*ALIKE, UNLIKE)
    )
    near, far = float(first @ second), float(first @ other)
    return near > far, f"the same said twice {near:.3f}, something else {far:.3f}"


TESTS: Final = {
    "digests": _digests,
    "tokenizer": _tokenizer,
    "batch": _batch,
    "window": _window,
    "known vector": _known,
    "meaning": _meaning,
}
