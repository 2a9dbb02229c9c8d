from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from service.errors import ReplicationError, Unavailable
from service.replica import Lease, LeaseGuard, LeaseKeeper, Tenure
from service.replica.counters import Counters
from service.replica.keeper import lease_file
from service.replica.lease import boottime_ms
from tests.replica.memory_store import MemoryStore
from tests.replica.world import eventually

LEASE_MS = 600


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (tmp_path / "writer").mkdir()
    return tmp_path


def kept(store: MemoryStore, data: Path, owner: str = "a/1") -> tuple[LeaseKeeper, LeaseGuard]:
    lease = Lease(store, shard="0", owner=owner, lease_ms=LEASE_MS, counters=Counters())
    tenure = lease.acquire()
    assert tenure is not None
    keeper = LeaseKeeper(lease, tenure, data, lease_ms=LEASE_MS)
    keeper.start()
    return keeper, LeaseGuard(data, tenure)


def deadline(data: Path) -> float:
    told = orjson.loads(lease_file(data).read_bytes())
    return float(told["deadline_ms"])


def test_the_committing_process_is_told_of_every_renewal(data: Path) -> None:
    keeper, guard = kept(MemoryStore(), data)
    first = deadline(data)
    guard.check()
    assert first - boottime_ms() < LEASE_MS
    eventually(lambda: deadline(data) > first + LEASE_MS, "several renewals")
    guard.check()
    assert guard.health()["term"] == 1
    assert 0 < guard.health()["left_ms"] <= LEASE_MS
    keeper.stop(5_000)


def test_giving_it_back_leaves_nobody_with_it(data: Path, tmp_path: Path) -> None:
    store = MemoryStore()
    keeper, guard = kept(store, data)
    keeper.stop(5_000)
    with pytest.raises(Unavailable, match="lost its shard") as caught:
        guard.check()
    assert "Idempotency-Key" in caught.value.hint
    other = Lease(store, shard="0", owner="b/1", lease_ms=LEASE_MS, counters=Counters())
    assert other.acquire() == Tenure(2, "b/1")


def test_losing_it_is_noticed_and_told(data: Path) -> None:
    store = MemoryStore()
    keeper, guard = kept(store, data)
    thief = orjson.loads(store.objects["leases/0.json"]) | {"owner": "b/1", "term": 2}
    store.put("leases/0.json", orjson.dumps(thief))
    eventually(lambda: keeper.lost, "the keeper notices")
    assert guard.reason() == "its lease is another's"
    keeper.stop(5_000)
    assert orjson.loads(store.objects["leases/0.json"]) == thief  # not ours to release


def test_a_store_that_fails_runs_the_lease_out_and_no_further(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = MemoryStore()
    keeper, guard = kept(store, data)
    with monkeypatch.context() as patch:
        patch.setattr(store, "put_if", _down())
        eventually(lambda: guard.reason() is not None, "the deadline passes")
        assert "could not be renewed" in str(guard.reason())
        assert not keeper.lost
    eventually(lambda: guard.reason() is None, "nobody took it: it goes on")
    keeper.stop(5_000)


def _down() -> Callable[..., str | None]:
    def put_if(key: str, body: bytes, *, known_etag: str | None) -> str | None:
        raise ReplicationError("store down")

    return put_if


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"term": 2, "owner": "a/1"}', b'{"term": 1, "owner": "b/1"}']
)
def test_whoever_is_told_of_something_else_owns_nothing(data: Path, body: bytes) -> None:
    lease_file(data).write_bytes(body)
    guard = LeaseGuard(data, Tenure(1, "a/1"))
    with pytest.raises(Unavailable):
        guard.check()
    assert guard.health()["left_ms"] == 0


def test_the_deadline_itself_is_too_late(data: Path) -> None:
    told = {"term": 1, "owner": "a/1", "deadline_ms": 700.0}
    lease_file(data).write_bytes(orjson.dumps(told))
    assert LeaseGuard(data, Tenure(1, "a/1"), clock_ms=lambda: 699.9).reason() is None
    assert LeaseGuard(data, Tenure(1, "a/1"), clock_ms=lambda: 700.0).reason() is not None
