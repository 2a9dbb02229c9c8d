from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.replica.heat import pause_ms
from service.replica.shards import Schedule, shard_of
from service.settings import Settings

SETTINGS = Settings(
    poll_interval_ms=250,
    idle_poll_ms=2_000,
    polls_per_s=1_000,
    shards_interval_ms=2_000,
    shard_gone_ms=30_000,
)


def looks(schedule: Schedule, seconds: float, hot: frozenset[str] = frozenset()) -> list[str]:
    """Run a schedule for a while; what was looked at, in order."""
    seen, now = [], 100.0
    end = now + seconds
    while now < end:
        if (name := schedule.next(now)) is None:
            now += max(schedule.wait_s(now), 0.001)
            continue
        seen.append(name)
        if name:
            schedule.looked(name, now, hot=name in hot, missing=False)
        else:
            schedule.listed([], now)
    return seen


def test_only_heads_directly_below_the_prefix_are_shards() -> None:
    assert shard_of("heads/eu-1.json") == "eu-1"
    for key in ("heads/../x.json", "heads/a/b.json", "heads/.json", "leases/a.json", "heads/a"):
        assert shard_of(key) is None


def test_a_hot_shard_is_looked_at_every_interval_and_an_idle_one_backs_off() -> None:
    seen = looks(Schedule(["hot", "idle"], SETTINGS), 20.0, frozenset({"hot"}))
    assert 75 <= seen.count("hot") <= 81
    assert 10 <= seen.count("idle") <= 13  # after 0.5, 1, 2, 2 ... seconds


@given(shards=st.integers(1, 60), rate=st.integers(1, 40))
def test_looks_are_bounded_and_shared_fairly(shards: int, rate: int) -> None:
    settings = Settings(poll_interval_ms=100, polls_per_s=rate)
    names = [f"s{i}" for i in range(shards)]
    seen = looks(Schedule(names, settings), 10.0, frozenset(names))
    assert len(seen) <= rate * 10 + max(1.0, rate * 0.2) + 1
    counts = [seen.count(name) for name in names]
    assert max(counts) - min(counts) <= 1


def test_who_waits_gets_an_early_look() -> None:
    schedule = Schedule(["a", "b"], Settings(poll_interval_ms=60_000, idle_poll_ms=60_000))
    for _ in range(2):
        name = schedule.next(10.0)
        assert name
        schedule.looked(name, 10.0, hot=False, missing=False)
    assert schedule.next(11.0) is None
    schedule.hurry(["b"], 11.0)
    assert schedule.next(11.0) == "b"


def test_absence_is_sure_after_its_time_and_never_of_all() -> None:
    schedule = Schedule([], SETTINGS)
    schedule.listed(["a", "b"], 100.0)
    schedule.looked("a", 101.0, hot=False, missing=True)
    schedule.looked("b", 101.0, hot=False, missing=False)
    assert schedule.take_gone(130.9) == []
    schedule.looked("b", 131.0, hot=False, missing=True)
    assert schedule.take_gone(200.0) == []  # all gone: rather the wrong store
    schedule.looked("b", 201.0, hot=False, missing=False)
    assert schedule.take_gone(201.0) == ["a"]
    assert schedule.names == ["b"]


def test_a_shard_that_comes_back_is_not_gone() -> None:
    schedule = Schedule([], SETTINGS)
    schedule.listed(["a", "b"], 100.0)
    schedule.looked("b", 100.0, hot=False, missing=False)
    schedule.looked("a", 100.0, hot=False, missing=True)
    schedule.looked("a", 120.0, hot=False, missing=False)
    schedule.looked("a", 140.0, hot=False, missing=True)
    assert schedule.take_gone(160.0) == []


def test_a_failed_look_is_no_look() -> None:
    schedule = Schedule(["a"], SETTINGS)
    schedule.failed("a", 100.0)
    assert not schedule.seen_all_since(99.0)
    schedule.looked("a", 101.0, hot=True, missing=False)
    assert schedule.seen_all_since(99.0)


def test_the_longer_unused_the_longer_left_alone_up_to_the_bound() -> None:
    settings = Settings(hot_ms=60_000, idle_catch_up_ms=60_000)
    assert pause_ms(60_000, settings) == 0
    assert pause_ms(80_000, settings) == 20_000
    assert pause_ms(10**12, settings) == 60_000
