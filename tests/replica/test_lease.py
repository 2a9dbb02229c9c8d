from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.errors import ReplicationError
from service.replica import FolderStore, Lease, Tenure
from service.replica import heads as documents
from service.replica.counters import Counters
from service.replica.heads import Heads
from service.replica.lease import MARGIN_PART
from service.replica.store import Absent, ObjectStore, Stored
from tests.replica.memory_store import MemoryStore

LEASE_MS = 1_000


class Clock:
    """Set by hand."""

    def __init__(self) -> None:
        self.ms = 5_000.0

    def __call__(self) -> float:
        return self.ms


def contender(store: ObjectStore, name: str, clock: Callable[[], float]) -> Lease:
    return Lease(
        store, shard="0", owner=name, lease_ms=LEASE_MS, counters=Counters(), clock_ms=clock
    )


@pytest.fixture(params=["memory", "folder"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObjectStore:
    return MemoryStore() if request.param == "memory" else FolderStore(tmp_path)


def test_the_first_one_gets_it_and_the_second_waits_a_whole_lease(store: ObjectStore) -> None:
    clock = Clock()
    first, second = contender(store, "a/1", clock), contender(store, "b/1", clock)
    assert first.acquire() == Tenure(1, "a/1")
    clock.ms += 900  # the holder's own time is up; that is nothing to the other
    assert not first.valid
    assert second.acquire() is None
    clock.ms += LEASE_MS - 1
    assert second.acquire() is None
    clock.ms += 1
    assert second.acquire() == Tenure(2, "b/1")
    assert second.valid
    assert second.counters.snapshot() == {"takeovers": 1}


def test_every_renewal_starts_the_wait_anew(store: ObjectStore) -> None:
    clock = Clock()
    first, second = contender(store, "a/1", clock), contender(store, "b/1", clock)
    first.acquire()
    for _ in range(10):
        assert second.acquire() is None
        clock.ms += LEASE_MS - 1
        assert first.renew()
        assert first.valid
    assert second.holder is not None
    assert (second.holder.owner, second.holder.renewals) == ("a/1", 9)


def test_a_holder_that_was_replaced_finds_out_when_it_renews(store: ObjectStore) -> None:
    clock = Clock()
    first, second = contender(store, "a/1", clock), contender(store, "b/1", clock)
    first.acquire()
    second.acquire()
    clock.ms += LEASE_MS
    second.acquire()
    assert first.renew() is False
    assert not first.valid
    assert first.counters["lease_lost"] == 1
    assert first.renew() is False
    assert first.acquire() is None


def test_a_holder_that_was_not_replaced_goes_on_after_its_deadline(store: ObjectStore) -> None:
    clock = Clock()
    lease = contender(store, "a/1", clock)
    lease.acquire()
    clock.ms += 10 * LEASE_MS
    assert not lease.valid
    assert lease.renew()
    assert lease.deadline_ms == clock.ms + LEASE_MS * (1 - 1 / MARGIN_PART)


def test_a_released_lease_is_free_at_once_and_its_term_is_not_used_again(
    store: ObjectStore,
) -> None:
    clock = Clock()
    first, second = contender(store, "a/1", clock), contender(store, "b/1", clock)
    first.acquire()
    assert second.acquire() is None
    first.release()
    assert not first.valid
    assert second.acquire() == Tenure(2, "b/1")
    assert second.counters.snapshot() == {}


def test_a_folders_next_process_need_not_wait(store: ObjectStore) -> None:
    clock = Clock()
    contender(store, "a/1", clock).acquire()
    assert contender(store, "b/1", clock).acquire() is None
    assert contender(store, "a/2", clock).acquire() == Tenure(2, "a/2")


def test_terms_go_on_after_those_of_the_heads_when_the_lease_object_was_removed(
    store: ObjectStore,
) -> None:
    store.put("heads/0.json", documents.encode(Heads("0", 9, 0, {}, term=6, owner="z/1")))
    assert contender(store, "a/1", Clock()).acquire() == Tenure(7, "a/1")


def test_the_owners_promise_counts_not_the_contenders_setting(store: ObjectStore) -> None:
    clock = Clock()
    long = Lease(
        store, shard="0", owner="a/1", lease_ms=5 * LEASE_MS, counters=Counters(), clock_ms=clock
    )
    long.acquire()
    second = contender(store, "b/1", clock)
    second.acquire()
    clock.ms += 5 * LEASE_MS - 1
    assert second.acquire() is None
    clock.ms += 1
    assert second.acquire() is not None


def test_a_renewal_whose_answer_was_lost_is_taken_up_and_not_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store, clock = MemoryStore(), Clock()
    lease = contender(store, "a/1", clock)
    lease.acquire()
    clock.ms += 300
    with monkeypatch.context() as patch:
        patch.setattr(store, "put_if", _answer_lost(store))
        with pytest.raises(ReplicationError):
            lease.renew()
    assert lease.deadline_ms == 5_900
    bodies = {store.objects["leases/0.json"]}
    clock.ms += 300
    assert lease.renew()
    assert lease.deadline_ms == 6_500
    bodies.add(store.objects["leases/0.json"])
    assert len(bodies) == 2  # or a contender would think it unchanged
    assert lease.counters["failed_renewals"] == 1


def _answer_lost(store: MemoryStore) -> Callable[..., str | None]:
    put_if = store.put_if

    def lossy(key: str, body: bytes, *, known_etag: str | None) -> str | None:
        put_if(key, body, known_etag=known_etag)
        raise ReplicationError("timed out")

    return lossy


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"owner": 5}', b"\xff"])
def test_a_lease_that_cannot_be_read_is_nobodys_to_take(body: bytes) -> None:
    store = MemoryStore()
    store.put("leases/0.json", body)
    with pytest.raises(ReplicationError, match="cannot be read"):
        contender(store, "a/1", Clock()).acquire()
    assert store.objects["leases/0.json"] == body


def test_the_object_is_as_described(store: ObjectStore) -> None:
    contender(store, "a/1", Clock()).acquire()
    stored = store.get("leases/0.json")
    assert isinstance(stored, Stored)
    told = json.loads(stored.body)
    assert (told["owner"], told["term"], told["expires_in_ms"]) == ("a/1", 1, LEASE_MS)
    assert (told["renewals"], told["released"]) == (0, False)


# --- any interleaving


class Stop(BaseException):
    """Ends a contender's thread."""


class Slow:
    """A store whose every call lets others run before it happens and after it did."""

    def __init__(self, store: MemoryStore, turn: Callable[[], str]) -> None:
        self._store, self._turn = store, turn

    def get(self, key: str, *, known_etag: str | None = None) -> Stored | Absent:
        self._turn()
        stored = self._store.get(key, known_etag=known_etag)
        self._turn()
        return stored

    def put_if(self, key: str, body: bytes, *, known_etag: str | None) -> str | None:
        if self._turn() == "fail":
            raise ReplicationError("not sent")
        etag = self._store.put_if(key, body, known_etag=known_etag)
        if self._turn() == "fail":
            raise ReplicationError("sent, and the answer was lost")
        return etag


class Contender:
    """Contends, renews and sometimes releases, in a thread that runs only when it is its turn."""

    def __init__(self, store: MemoryStore, number: int, clock: Callable[[], float]) -> None:
        self._mine, self._others = threading.Semaphore(0), threading.Semaphore(0)
        self._order = "go"
        slow: ObjectStore = Slow(store, self._turn)  # type: ignore[assignment]
        self.lease = Lease(
            slow,
            shard="0",
            owner=f"{number}/1",
            lease_ms=LEASE_MS,
            counters=Counters(),
            clock_ms=clock,
        )
        self._thread = threading.Thread(target=self._main, daemon=True)
        self._thread.start()

    def let(self, order: str) -> None:
        """Run until its next turn; `order` is what happens to it there."""
        self._order = order
        self._mine.release()
        self._others.acquire()

    def end(self) -> None:
        self._order = "stop"
        self._mine.release()
        self._thread.join()

    def _turn(self) -> str:
        self._others.release()
        self._mine.acquire()
        if self._order == "stop":
            raise Stop
        return self._order

    def _main(self) -> None:
        holds = False
        self._mine.acquire()
        try:
            while self._order != "stop":
                try:
                    if holds and self._order == "release":
                        holds = False
                        self.lease.release()
                    elif holds:
                        holds = self.lease.renew()
                    else:
                        holds = self.lease.acquire() is not None
                except ReplicationError:
                    pass
                self._turn()
        except Stop:
            return


#: Who goes on, after how many milliseconds, for how many turns (a whole round takes 3 to 7), how.
MOVES = st.tuples(
    st.integers(0, 2),
    st.sampled_from([0, 1, 150, 300, 450, 650, 1_050]),
    st.sampled_from([1, 2, 3, 7, 7]),
    st.sampled_from(["go"] * 8 + ["fail", "release"]),
)


@settings(max_examples=150, deadline=None)
@given(
    count=st.integers(2, 3),
    offsets=st.tuples(*[st.floats(0, 1e9)] * 3),
    rates=st.tuples(*[st.floats(0.96, 1.04)] * 3),
    moves=st.lists(MOVES, min_size=20, max_size=60),
)
def test_there_are_never_two_holders(
    count: int,
    offsets: tuple[float, ...],
    rates: tuple[float, ...],
    moves: list[tuple[int, int, int, str]],
) -> None:
    """Whoever sleeps for however long, wherever it is, and whatever his clock shows."""
    now = [0.0]
    store = MemoryStore()

    def clock(number: int) -> Callable[[], float]:
        return lambda: offsets[number] + rates[number] * now[0]

    contenders = [Contender(store, number, clock(number)) for number in range(count)]
    terms: list[int] = []
    try:
        for who, passes, turns, order in moves:
            now[0] += passes
            for _ in range(turns):
                contenders[who % count].let(order)
                assert sum(one.lease.valid for one in contenders) <= 1
            if "leases/0.json" in store.objects:
                terms.append(json.loads(store.objects["leases/0.json"])["term"])
        assert terms == sorted(terms)
    finally:
        for one in contenders:
            one.end()
