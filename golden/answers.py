"""What a golden run gets back, and what it asks of whatever is searched. No engine in here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

WARMING = "warm"
"""Searched once before a clock runs: what is loaded at the first query is not a query."""


class Found(NamedTuple):
    """One hit. `components` maps a score component's name to its value in [0, 1]."""

    kind: str
    ref: str
    title: str = ""
    score: float = 0.0
    components: Mapping[str, float] = {}

    @property
    def name(self) -> str:
        """`kind:ref`."""
        return f"{self.kind}:{self.ref}"


@dataclass(frozen=True, slots=True)
class Answer:
    """One search's hits, best first, and what it cost.

    Attributes:
        cpu_ms: CPU time of the searching thread; None where it runs on another machine.
        semantic_state: the state the server reported; None in process, which has no such lane.
    """

    hits: Sequence[Found]
    wall_ms: float = 0.0
    cpu_ms: float | None = None
    semantic_state: str | None = None


class Backend(Protocol):
    """Something that can be searched. Closed by its `with` block."""

    def search(
        self,
        query: str,
        limit: int,
        *,
        kinds: Sequence[str] = (),
        updated_after_ms: int | None = None,
    ) -> Answer:
        """The first `limit` hits.

        Raises:
            MemlaneError: the search could not be answered.
        """

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc: object) -> None: ...
