"""What the engine asks of whoever can reorder candidates by their vectors."""

from __future__ import annotations

import dataclasses
from typing import Protocol, Self

import numpy as np
from numpy.typing import NDArray

from service.ranking import scoring
from service.ranking.rescore import EXACT_FROM, POOL, Ids
from service.ranking.scoring import Floats


@dataclasses.dataclass(frozen=True, slots=True)
class Pool:
    """Candidates in rising order of their rows, scored by keyword.

    Attributes:
        ids: row ids (n,).
        keyword: the score of each, float64 (n,).
        exact: which hold an identifier that was typed, bool (n,).
        leading: places of the best, at most `POOL`, rising; only these are to be rescored.
    """

    ids: Ids
    keyword: Floats
    exact: NDArray[np.bool_]
    leading: NDArray[np.int64]

    @classmethod
    def of(cls, ids: Ids, keyword: Floats, identifier: Floats) -> Self:
        """From the component `identifier`."""
        leading = np.sort(scoring.order(keyword, ids)[:POOL])
        return cls(ids, keyword, identifier >= EXACT_FROM, leading)


@dataclasses.dataclass(frozen=True, slots=True)
class Rescored:
    """One more component of the score, float64 (n,) in [0, 1], and what it weighs."""

    component: Floats
    weight: float


class Rescorer(Protocol):
    """Reorders the candidates of one search."""

    def __call__(self, pool: Pool) -> Rescored | None:
        """The component of these candidates; None leaves the order as it is."""

    def decline(self) -> None:
        """This page is not to be rescored."""
