import pytest

from service.semantic.state import (
    LEGAL_PAIRS,
    NO_SIDECAR,
    SemanticOutcome,
    SemanticReason,
    SemanticState,
)


def test_every_combination_is_either_a_listed_pair_or_refused() -> None:
    built = set()
    for state in SemanticState:
        coverage = 0.5 if state is SemanticState.OK else None
        for reason in (None, *SemanticReason):
            if (state, reason) in LEGAL_PAIRS:
                built.add(SemanticOutcome(state, reason, coverage=coverage))
            else:
                with pytest.raises(ValueError, match="cannot have"):
                    SemanticOutcome(state, reason, coverage=coverage)
    assert len(built) == len(LEGAL_PAIRS) == 12
    assert {pair[1] for pair in LEGAL_PAIRS} == {None, *SemanticReason}


def test_coverage_is_a_share_and_belongs_to_ok_alone() -> None:
    assert SemanticOutcome(SemanticState.OK, coverage=0.0).coverage == 0.0
    for coverage in (None, -0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="coverage"):
            SemanticOutcome(SemanticState.OK, coverage=coverage)
    with pytest.raises(ValueError, match="coverage"):
        SemanticOutcome(SemanticState.COLD, SemanticReason.MODEL_CHANGED, coverage=0.0)


def test_an_outcome_reads_the_same_in_header_and_body() -> None:
    assert NO_SIDECAR.header() == "disabled; reason=no_sidecar"
    assert NO_SIDECAR.body() == {
        "state": "disabled",
        "reason": "no_sidecar",
        "model": None,
        "coverage": None,
    }
    assert SemanticOutcome(SemanticState.OK, model="m", coverage=1.0).header() == "ok"
