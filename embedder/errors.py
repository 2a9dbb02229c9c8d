"""What can go wrong in the sidecar, one class a cause.

    EmbedderError
    ├── SetupError          start-up: this machine lacks something; see `hint`
    ├── ModelInvalid        start-up: the model folder cannot be used as it is
    ├── BuildFailed         a model could not be made from its package
    ├── BadInput            too many or too long texts            INVALID_ARGUMENT
    ├── OtherModel          the caller expects another model      FAILED_PRECONDITION
    ├── QueueFull           try again later                       RESOURCE_EXHAUSTED
    ├── Expired             the deadline passed first             DEADLINE_EXCEEDED
    ├── Draining            the server is stopping                UNAVAILABLE
    └── InferenceFailed     the runtime failed on these texts     INTERNAL

`server.py` is the one place that turns them into gRPC status codes.
"""

from __future__ import annotations


class EmbedderError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        detail: what happened, one sentence, no text of a caller.
        hint: what to do next, one sentence; empty when nothing can be done.
    """

    hint_default = ""

    def __init__(self, detail: str, *, hint: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = self.hint_default if hint is None else hint


class SetupError(EmbedderError):
    """The machine lacks something that the sidecar needs."""


class ModelInvalid(EmbedderError):
    """The model folder is missing, damaged, or does not say what is needed."""

    hint_default = "docs/EMBEDDER.md says what a model folder holds."


class BuildFailed(EmbedderError):
    """A model could not be made from its registry package."""


class BadInput(EmbedderError):
    """Too many texts, or too long ones."""


class OtherModel(EmbedderError):
    """The caller expects the vectors of another model."""


class QueueFull(EmbedderError):
    """A bounded queue has no room."""


class Expired(EmbedderError):
    """The caller's deadline passed before the work began."""


class Draining(EmbedderError):
    """The server is stopping."""


class InferenceFailed(EmbedderError):
    """The runtime failed; the server goes on."""
