"""What a peer offers, and the text that every peer is given."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from types import ModuleType
from typing import Protocol

from golden.answers import Found
from golden.lexicon import Document
from service.errors import SetupError

INSTALL = "pip install 'memlane[peers]'"


class MissingPackage(SetupError):
    """A peer's package is not installed."""

    def __init__(self, package: str) -> None:
        super().__init__(f"the package {package} is missing", hint=f"{INSTALL} brings it.")


class Engine(Protocol):
    """An engine that holds a corpus in memory."""

    def search(self, query: str, limit: int) -> list[Found]:
        """The first `limit` hits, best first; any text is a query, none of it is grammar."""

    def close(self) -> None:
        """Let go of the index."""


def package(module: str, *, name: str | None = None) -> ModuleType:
    """An optional package, imported by its module's name.

    Raises:
        MissingPackage: it is not installed; `name` is what it is called in the registry.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise MissingPackage(name or module) from error


def text(document: Document) -> str:
    """All that is searched of a document, as one field: title, body, identifiers."""
    return "\n".join((document.title, document.body, *document.identifiers))


def found(documents: Sequence[Document], numbers: Sequence[int]) -> list[Found]:
    """Hits by their place in the corpus."""
    return [Found(documents[number].kind, documents[number].ref) for number in numbers]
