from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.replica.freshness import ShardClock, as_of_ms, first_look, satisfies
from service.replica.heads import Head


def test_a_publication_is_as_old_as_the_last_poll_that_did_not_show_it() -> None:
    clock = first_look(1_000, seq=5, claimed_age_ms=200)
    assert clock.as_of_ms == 800
    clock = clock.polled(1_250, 5)
    assert clock.as_of_ms == 800  # silence makes nothing younger
    clock = clock.polled(1_500, 6)
    assert clock.as_of_ms == 1_250


def test_a_writer_clock_that_runs_ahead_makes_nothing_from_the_future() -> None:
    assert first_look(1_000, seq=1, claimed_age_ms=-60_000).as_of_ms == 1_000


def test_an_older_publication_changes_nothing() -> None:
    clock = ShardClock(seq=9, as_of_ms=500, polled_ms=700).polled(900, 8)
    assert clock == ShardClock(seq=9, as_of_ms=500, polled_ms=900)


@given(
    gaps=st.lists(st.integers(1, 1_000), min_size=2, max_size=40),
    published=st.sets(st.integers(41, 40_000), max_size=30),
)
def test_a_replica_is_never_called_younger_than_it_is(gaps: list[int], published: set[int]) -> None:
    """Polls and publications in any order: `as_of` is at most the moment of publication."""
    moments = [0, *sorted(published)]  # seq n was published at moments[n]
    now = 40
    clock = first_look(now, seq=0, claimed_age_ms=now)
    for gap in gaps:
        now += gap
        seq = sum(moment <= now for moment in moments) - 1
        clock = clock.polled(now, seq)
        assert clock.as_of_ms <= moments[clock.seq]


def test_the_time_that_writing_the_heads_takes_is_taken_off() -> None:
    clock = ShardClock(seq=5, as_of_ms=800, polled_ms=1_250)
    assert clock.polled(1_500, 6, put_ms=30).as_of_ms == 1_220
    assert clock.polled(1_500, 6, put_ms=9_000).as_of_ms == 800  # what was known stays known


def test_commits_that_wait_at_the_writer_count_as_age() -> None:
    moment = as_of_ms(satisfied=True, replica_as_of_ms=100, shard_as_of_ms=1_000, lag_ms=300)
    assert moment == 700
    moment = as_of_ms(satisfied=True, replica_as_of_ms=900, shard_as_of_ms=1_000, lag_ms=300)
    assert moment == 900  # what was known stays known


def test_a_replica_that_misses_something_stays_as_old_as_it_was() -> None:
    head = Head(epoch=1, txid=7, version=5, committed_at=0)
    assert satisfies(1, 7, 5, head)
    for epoch, txid, version in ((2, 7, 5), (1, 6, 5), (1, 7, 4)):
        assert not satisfies(epoch, txid, version, head)
    moment = as_of_ms(satisfied=False, replica_as_of_ms=100, shard_as_of_ms=1_000, lag_ms=0)
    assert moment == 100
