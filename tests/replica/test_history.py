"""Earlier states of a file: which there are, and which is the one for a moment."""

from __future__ import annotations

import io
import itertools
from pathlib import Path

import apsw
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import NotFound, ReplicationError
from service.index.connection import APPLICATION_ID, open_reader
from service.replica import FolderStore, new_file, plan
from service.replica.history import reachable, rebuild_at
from service.replica.ltx import NO_CHECKSUM, Header, Reader, encode
from service.replica.names import replica_prefix
from service.replica.plan import LtxName
from tests.replica.world import ltx_between

ranges = st.tuples(st.integers(1, 12), st.integers(0, 11)).map(lambda r: (r[0], r[0] + r[1]))


@given(st.lists(ranges, max_size=12))
def test_a_state_is_reachable_exactly_when_some_chain_of_files_ends_there(
    found: list[tuple[int, int]],
) -> None:
    names = [LtxName(f"{low}-{high}", 0, low, high, 1) for low, high in found]
    states = {0}
    for _ in found:
        states |= {h for (low, h), s in itertools.product(found, states) if low - 1 <= s < h}
    assert reachable(names) == sorted(states - {0})
    for state in states - {0}:
        path = plan.bridge([name for name in names if name.max_txid <= state], 0, state)
        assert path is not None
        assert path[-1].max_txid == state


class History:
    """A file's objects: batch n is transaction n, committed at 1000 n, synced 300 ms later."""

    def __init__(self, root: Path) -> None:
        self.store = FolderStore(root / "store")
        self.file = new_file()
        self.folder = root / "drafts"
        self.folder.mkdir()
        self.states = [b""]
        self._path = root / "source.db"
        self._db = open_private(self._path)

    def batches(self, count: int, epoch: int = 1) -> None:
        """Commit some; each leaves its level-0 file."""
        for _ in range(count):
            number = len(self.states)
            with self._db:
                self._db.execute(
                    "INSERT OR REPLACE INTO meta VALUES ('version', ?), ('committed_at', ?)",
                    (number, 1_000 * number),
                )
                self._db.execute("INSERT INTO row VALUES (?, randomblob(3000))", (number,))
            self.states.append(self._path.read_bytes())
            self.put(epoch, 0, number, number)

    def put(self, epoch: int, level: int, low: int, high: int) -> None:
        """The file of these transactions; the first one of an epoch is a snapshot."""
        body = ltx_between(self.states[low - 1] if low > 1 else b"", self.states[high], low)
        pages = dict(Reader(io.BytesIO(body)).pages())
        commit = len(self.states[high]) // 4_096
        header = Header(NO_CHECKSUM, 4_096, commit, low, high, 1_000 * high + 300)
        self.store.put(self.key(epoch, level, low, high), encode(header, pages))

    def remove(self, *numbers: int, epoch: int = 1) -> None:
        for number in numbers:
            self.store.delete(self.key(epoch, 0, number, number))

    def key(self, epoch: int, level: int, low: int, high: int) -> str:
        name = plan.file_name(low, high)
        return f"{replica_prefix(self.file, epoch)}ltx/{level}/{name}"

    def at(self, moment: int) -> tuple[int, int]:
        """Epoch and version of the state for a moment; nothing else is left behind."""
        found = rebuild_at(self.store, self.file, moment, self.folder, created_at=0)
        connection = open_reader(found.path)
        rows = connection.execute("SELECT count(*), max(id) FROM row").fetchone()
        connection.close()
        assert rows == (found.stamps.version, found.stamps.version)
        assert found.stamps.committed_at == 1_000 * found.stamps.version <= moment
        assert [path.name for path in self.folder.iterdir()] == [found.path.name]
        found.path.unlink()
        return found.epoch, found.stamps.version


def open_private(path: Path) -> apsw.Connection:
    connection = apsw.Connection(str(path))
    connection.pragma("application_id", APPLICATION_ID)
    connection.execute(
        "CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID;"
        "CREATE TABLE row(id INTEGER PRIMARY KEY, pad BLOB)"
    )
    return connection


@pytest.fixture
def past(tmp_path: Path) -> History:
    return History(tmp_path)


def test_every_moment_gets_the_last_batch_before_it_also_one_not_yet_synced(past: History) -> None:
    past.batches(9)
    for number in range(1, 10):
        for after in (0, 1, 299, 300, 999):
            assert past.at(1_000 * number + after) == (1, number)
    assert past.at(10**12) == (1, 9)


def test_before_the_first_state_there_is_nothing_and_it_says_since_when(past: History) -> None:
    past.batches(3)
    with pytest.raises(NotFound, match="begins at 1000"):
        past.at(999)
    past.put(1, 9, 1, 2)
    past.remove(1)
    with pytest.raises(NotFound, match="begins at 2000"):
        past.at(1_999)
    assert list(past.folder.iterdir()) == []
    past.file = new_file()
    with pytest.raises(NotFound, match="holds nothing"):
        past.at(5_000)


def test_where_only_compacted_files_are_left_the_state_before_is_given(past: History) -> None:
    past.batches(12)
    past.put(1, 1, 2, 5)
    past.put(1, 1, 6, 9)
    past.remove(2, 3, 4, 5, 6, 7, 8, 9)
    assert [past.at(1_000 * n)[1] for n in range(1, 13)] == [1, 1, 1, 1, 5, 5, 5, 5, 9, 10, 11, 12]


def test_a_moment_of_an_older_epoch_is_found_there(past: History) -> None:
    past.batches(4)
    past.put(2, 0, 1, 3)  # another owner went on from the third batch ...
    assert past.at(3_500) == (2, 3)
    assert past.at(2_500) == (1, 2)
    assert past.at(4_500) == (2, 3), "what the first one wrote after that was never acknowledged"


def test_damaged_objects_are_planned_around_or_named(past: History) -> None:
    past.batches(4)
    past.put(1, 1, 2, 3)
    key = past.key(1, 0, 2, 2)
    past.store.put(key, b"LTX1" + bytes(200))
    assert past.at(4_500) == (1, 4)
    past.remove(2)
    past.store.put(past.key(1, 1, 2, 3), b"LTX1" + bytes(200))
    with pytest.raises(ReplicationError):
        past.at(4_500)
