"""`memlane model build NAME`: a folder made once, found again by what it was made of."""

from __future__ import annotations

import fcntl
import hashlib
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from embedder.builds import e5_small, tiny, use
from embedder.catalog import MODEL_JSON, read_spec
from embedder.errors import BuildFailed, ModelInvalid
from embedder.model import Model, file_digests

KNOWN_TEXT: Final = "Which node answers reads while the writer restarts?"
"""The text whose vector every built folder carries, to verify a machine by."""

Write = Callable[[Path, Path, str], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one model is made.

    Attributes:
        write: writes graph and tokenizer into a folder; gets a work folder and the variant.
        variants: forms of the model, the default first.
        version: raised when the recipe makes something else than before.
        source: what it is made of.
    """

    write: Write
    variants: tuple[str, ...]
    version: int
    source: str


def _tiny(folder: Path, work: Path, variant: str) -> dict[str, Any]:  # noqa: ARG001  # like others
    return tiny.write(folder)


def _pinned(pin: Any) -> str:
    return repr((pin.package, pin.version, sorted(pin.members.items())))


RECIPES: Final[dict[str, Recipe]] = {
    e5_small.NAME: Recipe(e5_small.write, e5_small.VARIANTS, 1, _pinned(e5_small.PIN)),
    use.NAME: Recipe(use.write, ("u8",), 1, _pinned(use.PIN)),
    "tiny": Recipe(_tiny, ("random",), 1, "made here"),
}


def build(name: str, target: Path, *, variant: str | None = None) -> bool:
    """Make a model folder, unless it is there already, whole and of this recipe.

    Args:
        name: one of `RECIPES`.
        target: the folder; replaced when it holds something else that was built.
        variant: one of the recipe's; None: its first.

    Returns:
        Whether it was made just now.

    Raises:
        BuildFailed: no such model, no package, or `target` holds something that we did not make.
        ModelInvalid: what was made does not run here.
    """
    recipe = RECIPES.get(name)
    if recipe is None:
        raise BuildFailed(
            f"there is no recipe for {name}", hint=f"There is one for {', '.join(RECIPES)}."
        )
    variant = variant or recipe.variants[0]
    if variant not in recipe.variants:
        raise BuildFailed(
            f"{name} has no variant {variant}", hint=f"It has {', '.join(recipe.variants)}."
        )
    made_of = repr((name, variant, recipe.version, recipe.source))
    identity = hashlib.sha256(made_of.encode()).hexdigest()
    target.parent.mkdir(parents=True, exist_ok=True)
    with _locked(target):
        if _is_built(target, identity):
            return False
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{name}-") as beside:
            made, work = Path(beside, "made"), Path(beside, "work")
            made.mkdir()
            work.mkdir()
            said = {"name": name, **recipe.write(made, work, variant), "built_from": identity}
            _describe(made, said)
            _replace(made, target)
    return True


def _is_built(target: Path, identity: str) -> bool:
    """Whether the folder is whole and was made by this recipe."""
    try:
        said = json.loads((target / MODEL_JSON).read_text(encoding="utf-8"))
        if said.get("built_from") != identity:
            return False
        file_digests(read_spec(target))
    except (OSError, ValueError, ModelInvalid):
        return False
    return True


def _describe(folder: Path, said: dict[str, Any]) -> None:
    """Write `model.json`, with digests and a known vector made by running the model."""
    path = folder / MODEL_JSON
    path.write_text(json.dumps(said), encoding="utf-8")
    model = Model(folder)
    [vector] = model.embed([model.tokenizer.query(KNOWN_TEXT)])
    said = {
        **said,
        "sha256": file_digests(model.spec),
        "known": {"text": KNOWN_TEXT, "vector": vector.hex()},
    }
    path.write_text(json.dumps(said, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _replace(made: Path, target: Path) -> None:
    if target.exists():
        ours = target / MODEL_JSON
        if any(target.iterdir()) and not (ours.is_file() and "built_from" in ours.read_text()):
            raise BuildFailed(f"{target} holds something that was not built here")
        shutil.rmtree(target)
    made.rename(target)


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    """One build of a folder at a time, over processes."""
    with (target.parent / f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
