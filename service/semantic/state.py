"""What became of the semantic lane in one query: a closed set of states, each with its reasons.

Two silent degradations taught this: a lane that falls back without saying so is down for days
before anyone asks. So every query carries exactly one outcome, and outcomes that make no sense
cannot be built.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import Final, assert_never


class SemanticState(enum.StrEnum):
    """The five states, `docs/API.md` explains them to callers."""

    OK = "ok"
    """Candidates were rescored."""
    COLD = "cold"
    """No candidate has a vector yet."""
    TIMEOUT = "timeout"
    """The deadline passed first."""
    SKIPPED = "skipped"
    """Not asked, or not useful."""
    DISABLED = "disabled"
    """This deployment or tenant has no semantic lane."""


class SemanticReason(enum.StrEnum):
    """Why a state other than `ok` holds."""

    BACKFILL_PENDING = "backfill_pending"
    MODEL_CHANGED = "model_changed"
    DEADLINE = "deadline"
    SIDECAR_UNAVAILABLE = "sidecar_unavailable"
    SIDECAR_OVERLOADED = "sidecar_overloaded"
    REQUESTED = "requested"
    IDENTIFIER_QUERY = "identifier_query"
    NO_CANDIDATES = "no_candidates"
    CIRCUIT_OPEN = "circuit_open"
    NO_SIDECAR = "no_sidecar"
    TENANT_OFF = "tenant_off"


_REASONS: Final[dict[SemanticState, tuple[SemanticReason | None, ...]]] = {
    SemanticState.OK: (None,),
    SemanticState.COLD: (SemanticReason.BACKFILL_PENDING, SemanticReason.MODEL_CHANGED),
    SemanticState.TIMEOUT: (
        SemanticReason.DEADLINE,
        SemanticReason.SIDECAR_UNAVAILABLE,
        SemanticReason.SIDECAR_OVERLOADED,
    ),
    SemanticState.SKIPPED: (
        SemanticReason.REQUESTED,
        SemanticReason.IDENTIFIER_QUERY,
        SemanticReason.NO_CANDIDATES,
        SemanticReason.CIRCUIT_OPEN,
    ),
    SemanticState.DISABLED: (SemanticReason.NO_SIDECAR, SemanticReason.TENANT_OFF),
}

LEGAL_PAIRS: Final[tuple[tuple[SemanticState, SemanticReason | None], ...]] = tuple(
    (state, reason) for state, reasons in _REASONS.items() for reason in reasons
)
"""Every (state, reason) that a query can end in, in a fixed order."""


@dataclasses.dataclass(frozen=True, slots=True)
class SemanticOutcome:
    """One query's semantic outcome.

    Attributes:
        state: what became of the lane.
        reason: why; None for `ok` and only for it.
        model: the model that rescored, or that would have; None when there is none.
        coverage: the share of candidates that had a vector, in [0, 1]; set for `ok` and only for
            it.

    Raises:
        ValueError: the combination makes no sense.
    """

    state: SemanticState
    reason: SemanticReason | None = None
    model: str | None = None
    coverage: float | None = None

    def __post_init__(self) -> None:
        if self.reason not in _REASONS[self.state]:
            raise ValueError(f"{self.state} cannot have the reason {self.reason}")
        if (self.state is SemanticState.OK) != (self.coverage is not None):
            raise ValueError("coverage belongs to the state ok and only to it")
        if self.coverage is not None and not 0.0 <= self.coverage <= 1.0:
            raise ValueError(f"coverage {self.coverage} is outside [0, 1]")

    def header(self) -> str:
        """The value of the `Memlane-Semantic` header."""
        return self.state.value if self.reason is None else f"{self.state}; reason={self.reason}"

    def body(self) -> dict[str, object]:
        """The `semantic` object of an answer."""
        return {
            "state": self.state.value,
            "reason": None if self.reason is None else self.reason.value,
            "model": self.model,
            "coverage": self.coverage,
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Rescored:
    """Candidates were rescored; `coverage` is the share of them that had a vector."""

    coverage: float


def outcome_of(verdict: SemanticReason | Rescored, model: str | None) -> SemanticOutcome:
    """The outcome of a query by what happened; a reason that is not handled does not type-check.

    Args:
        verdict: what happened.
        model: whose vectors the tenant's file holds, if any.
    """
    match verdict:
        case Rescored(coverage):
            return SemanticOutcome(SemanticState.OK, model=model, coverage=coverage)
        case SemanticReason.BACKFILL_PENDING | SemanticReason.MODEL_CHANGED:
            state = SemanticState.COLD
        case (
            SemanticReason.DEADLINE
            | SemanticReason.SIDECAR_UNAVAILABLE
            | SemanticReason.SIDECAR_OVERLOADED
        ):
            state = SemanticState.TIMEOUT
        case (
            SemanticReason.REQUESTED
            | SemanticReason.IDENTIFIER_QUERY
            | SemanticReason.NO_CANDIDATES
            | SemanticReason.CIRCUIT_OPEN
        ):
            state = SemanticState.SKIPPED
        case SemanticReason.NO_SIDECAR | SemanticReason.TENANT_OFF:
            state = SemanticState.DISABLED
        case _:
            assert_never(verdict)
    return SemanticOutcome(state, verdict, model)


NO_SIDECAR: Final = SemanticOutcome(SemanticState.DISABLED, SemanticReason.NO_SIDECAR)
"""The outcome of every query in a deployment without an embedding sidecar."""
