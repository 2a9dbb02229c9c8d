from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.ranking import lanes

POSTINGS = st.lists(
    st.builds(
        lambda ids, worth: lanes.Posting(np.array(sorted(ids), dtype=np.int64), worth),
        st.sets(st.integers(1, 60)),
        st.sampled_from([0.5, 1.0, 3.0]),
    ),
    max_size=5,
)


@given(POSTINGS, st.integers(1, 7))
def test_tiers_are_the_whole_in_falling_worth_without_gap_or_overlap(
    postings: list[lanes.Posting], size: int
) -> None:
    worth: dict[int, float] = {}
    for posting in postings:
        for row in posting.ids.tolist():
            worth[row] = worth.get(row, 0) + posting.worth
    seen: list[int] = []
    floor, tier, more = float("inf"), 0, True
    while more:
        ids, more = lanes.pool(postings, tier, size)
        rows = ids.tolist()
        assert rows == sorted(rows)
        assert len(rows) == size or not more
        assert all(worth[row] <= floor for row in rows)
        floor = min((worth[row] for row in rows), default=floor)
        seen += rows
        tier += 1
    assert sorted(seen) == sorted(worth)


def test_nothing_found_is_an_empty_pool() -> None:
    ids, more = lanes.pool([], 0)
    assert (ids.tolist(), more) == ([], False)


def test_the_gate_opens_for_small_indexes() -> None:
    assert not lanes.gated(900, docs=1_000)
    assert lanes.gated(20_000, docs=100_000)
    assert not lanes.gated(14_000, docs=100_000)
