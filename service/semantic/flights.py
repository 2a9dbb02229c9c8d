"""A query's vector on its way: what the lane needs to know of how it travels, and no more."""

from __future__ import annotations

import dataclasses
import enum
import threading
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.int8]


class Failure(enum.Enum):
    """Why the sidecar gave no vectors."""

    DEADLINE = "deadline"
    UNAVAILABLE = "unavailable"
    OVERLOADED = "overloaded"
    OTHER_MODEL = "other_model"
    REFUSED = "refused"
    """It will not embed this text."""


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """The circuit is open: nobody was asked."""


class Flight:
    """One text's vector on its way; shared by all who want it.

    Attributes:
        began: monotonic seconds.
        answer: the vector, or how it failed; None while it is on its way.
        counted: its success or failure was told to the circuit breaker.
    """

    def __init__(self, began: float) -> None:
        self.began = began
        self.answer: Vector | Failure | None = None
        self.counted = False
        self._done = threading.Event()

    def land(self, answer: Vector | Failure) -> None:
        """The answer is here."""
        self.answer = answer
        self._done.set()

    def wait(self, seconds: float) -> Vector | Failure | None:
        """The answer, or None when it is not here by then."""
        self._done.wait(max(0.0, seconds))
        return self.answer


class QueryVectors(Protocol):
    """Vectors of queries, from wherever; see `service.semantic.client.EmbedClient`."""

    def ask(self, text: str, model: str) -> Vector | Flight | Held:
        """Have a text embedded by this model; returns at once."""

    def wait(self, flight: Flight, seconds: float) -> Vector | Failure:
        """The answer of a flight, or `Failure.DEADLINE` when it is not here in time."""

    def close(self) -> None:
        """Ask no more."""
