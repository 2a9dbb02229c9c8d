"""Where built models lie, and how a name becomes a folder."""

from __future__ import annotations

import os
from pathlib import Path

from embedder.catalog import MODEL_JSON


def cache_folder() -> Path:
    """`MEMLANE_MODELS`, else `memlane/models` in the user's cache folder."""
    if told := os.environ.get("MEMLANE_MODELS"):
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "memlane" / "models"


def locate(model: str) -> Path:
    """The folder of a model given as a folder or as the name of a built one.

    A name that is neither comes back as a path; opening it says what is missing.
    """
    path = Path(model)
    built = cache_folder() / model
    return built if not path.is_dir() and (built / MODEL_JSON).is_file() else path
