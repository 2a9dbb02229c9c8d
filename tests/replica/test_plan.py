from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.replica.plan import OBJECT_COST_BYTES, LtxName, bridge, file_name, furthest, parse


def name(low: int, high: int, size: int = 1) -> LtxName:
    return LtxName(f"{low}-{high}", 0, low, high, size)


spans = st.tuples(st.integers(1, 12), st.integers(0, 6), st.integers(0, 300_000)).map(
    lambda t: name(t[0], t[0] + t[1], t[2])
)


def cost(names: list[LtxName]) -> int:
    return sum(n.size + OBJECT_COST_BYTES for n in names)


def cheapest(names: list[LtxName], at: int, to: int) -> int | None:
    """All ways, one after the other."""
    if at >= to:
        return 0
    ways = [
        n.size + OBJECT_COST_BYTES + rest
        for n in names
        if n.min_txid <= at + 1 <= n.max_txid
        and (rest := cheapest(names, n.max_txid, to)) is not None
    ]
    return min(ways, default=None)


@given(names=st.lists(spans, max_size=9), after=st.integers(0, 12), to=st.integers(0, 15))
def test_a_plan_leads_there_and_none_is_cheaper(names: list[LtxName], after: int, to: int) -> None:
    plan = bridge(names, after, to)
    best = cheapest(names, after, to)
    if best is None:
        assert plan is None
        return
    assert plan is not None
    at = after
    for step in plan:
        assert step.min_txid <= at + 1 <= step.max_txid
        at = step.max_txid
    assert at >= to
    assert cost(plan) == best


@given(names=st.lists(spans, max_size=9), after=st.integers(0, 12))
def test_the_furthest_state_is_reachable_and_the_next_is_not(
    names: list[LtxName], after: int
) -> None:
    reach = furthest(names, after)
    assert bridge(names, after, reach) is not None
    assert bridge(names, after, reach + 1) is None


def test_small_steps_beat_a_large_snapshot_and_lose_to_a_small_one() -> None:
    steps = [name(n, n, 4_000) for n in range(1, 9)]
    large, small = name(1, 8, 500_000_000), name(1, 8, 100_000)
    assert bridge([*steps, large], 5, 8) == steps[5:]
    assert bridge([*steps, small], 0, 8) == [small]


def test_names_are_read_in_both_layouts_and_nothing_else_is() -> None:
    listed = "v1/x/00000001.db/ltx/9/0000000000000001-000000000000001f.ltx"
    assert parse(listed, 7) == LtxName(listed, 9, 1, 31, 7)
    padded = "v1/x/00000001.db/0001/" + file_name(2, 3)
    assert parse(padded, 7) == LtxName(padded, 1, 2, 3, 7)
    for other in ("heads/0.json", "0/" + file_name(3, 2), "0/" + file_name(0, 2), listed + ".tmp"):
        assert parse(other, 7) is None
