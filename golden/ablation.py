"""What each component of the score is worth: the judged sets with each one's weight at 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from golden import runner
from golden.answers import Backend
from golden.judged import JudgedSet
from service.ranking import scoring

EVERYTHING = "all"


def run(
    backend: Backend,
    judged_set: JudgedSet,
    *,
    first: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> dict[str, Any]:
    """Run a set with every weight, then once for each component without it.

    Args:
        backend: the engine in this process.
        judged_set: the set.
        first: only the first so many queries.
        progress: called with 1 after each query of each run.

    Returns:
        `{"all": {"n", "recall10", "mrr10", "ndcg10", "top1"}, "without": {COMPONENT: the same}}`.

    Raises:
        MemlaneError: a search failed.
    """

    def measured() -> dict[str, Any]:
        outcomes = runner.run_set(backend, judged_set, first=first, progress=progress)
        return runner.means(outcomes)

    everything, without = measured(), {}
    for component in scoring.WEIGHTS:
        with weight(component, 0.0):
            without[component] = measured()
    return {EVERYTHING: everything, "without": without}


def runs() -> int:
    """How often `run` goes through a set."""
    return 1 + len(scoring.WEIGHTS)


@contextmanager
def weight(component: str, value: float) -> Iterator[None]:
    """Another weight for one component while the block runs; for this process, in every thread."""
    weights = scoring.WEIGHTS
    assert isinstance(weights, dict), "the weights are read where they stand"
    before = weights[component]
    weights[component] = value
    try:
        yield
    finally:
        weights[component] = before
