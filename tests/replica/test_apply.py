from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from service.errors import ReplicationError, Unavailable
from service.index.connection import open_reader
from service.replica.apply import as_replica, exclusive, write_new, write_pages
from service.replica.ltx import NO_CHECKSUM, Header, encode
from tests.replica.world import Source, digest, eventually, whole_version


@pytest.fixture
def source(tmp_path: Path) -> Source:
    return Source(tmp_path / "source.db")


@pytest.fixture
def replica(tmp_path: Path, source: Source) -> Path:
    path = tmp_path / "replica.db"
    assert write_new(path, [source.batch()], replica=True) == 1
    return path


def advance(replica: Path, streams: list[io.BytesIO], txid: int) -> int:
    with exclusive(replica) as handle:
        return write_pages(handle, streams, txid)[0]


def test_a_replica_follows_its_source_page_by_page(source: Source, replica: Path) -> None:
    for turn in range(1, 30):
        assert advance(replica, [source.batch(turn * 300)], turn) == turn + 1
        assert digest(replica) == digest(source.path)
    assert replica.stat().st_size == source.path.stat().st_size
    ours, theirs = bytearray(replica.read_bytes()), bytearray(source.path.read_bytes())
    assert as_replica(bytes(ours[:4096]), 1) == as_replica(bytes(theirs[:4096]), 1)
    assert ours[4096:] == theirs[4096:]


def test_an_open_connection_sees_every_apply(source: Source, replica: Path) -> None:
    """It keeps pages in its cache; the change counter tells it that they are old."""
    db = open_reader(replica)
    for turn in range(1, 20):
        with db:
            assert whole_version(db) == turn
        advance(replica, [source.batch()], turn)
    with db:
        assert whole_version(db) == 20
    db.close()


def test_a_connection_survives_that_its_file_shrinks(source: Source, replica: Path) -> None:
    """It maps the file into memory: to read beyond the new end would kill the process."""
    for turn in range(1, 20):
        advance(replica, [source.batch(4_000)], turn)
    db = open_reader(replica)
    with db:
        assert whole_version(db) == 20
    before = replica.stat().st_size
    advance(replica, [source.shrunk()], 20)
    shrunk = replica.stat().st_size
    assert shrunk < before * 0.7
    for turn in range(21, 25):
        with db:
            assert whole_version(db) == turn
        advance(replica, [source.batch(8_000)], turn)
    assert replica.stat().st_size > shrunk
    with db:
        assert whole_version(db) == 25
    db.close()


def test_several_files_go_under_one_lock(source: Source, replica: Path) -> None:
    assert advance(replica, [source.batch(), source.batch(), source.batch()], 1) == 4
    assert digest(replica) == digest(source.path)


def test_a_shrunk_database_is_cut_to_its_size(tmp_path: Path) -> None:
    path = tmp_path / "replica.db"
    state = {n: bytes([n]) * 512 for n in range(1, 10)}
    write_new(
        path, [io.BytesIO(encode(Header(NO_CHECKSUM, 512, 9, 1, 1, 0), state))], replica=False
    )
    path.write_bytes(path.read_bytes()[:16] + (512).to_bytes(2, "big") + path.read_bytes()[18:])
    smaller = encode(Header(NO_CHECKSUM, 512, 4, 2, 2, 0), {2: b"z" * 512})
    with exclusive(path) as handle:
        assert write_pages(handle, [io.BytesIO(smaller)], 1) == (2, 4 * 512)
    assert path.stat().st_size == 4 * 512
    assert path.read_bytes()[512:1024] == b"z" * 512


def test_a_file_that_does_not_follow_is_refused(source: Source, replica: Path) -> None:
    source.batch()
    third = source.batch()
    with pytest.raises(ReplicationError, match="cannot follow"):
        advance(replica, [third], 1)


def test_the_counter_passes_over_zero(source: Source, replica: Path) -> None:
    assert as_replica(bytes(4096), 0xFFFFFFFF)[24:28] == b"\xff" * 4
    assert as_replica(bytes(4096), 0x100000000)[24:28] == b"\0\0\0\1"


def test_a_running_query_holds_an_apply_up_and_new_ones_wait_behind_it(
    source: Source, replica: Path
) -> None:
    running, late = open_reader(replica), open_reader(replica)
    late.set_busy_timeout(0)
    running.execute("BEGIN")
    assert whole_version(running) == 1
    with pytest.raises(Unavailable), exclusive(replica, wait_ms=30):
        raise AssertionError
    # It gave up, so queries go on; it did not drop the running query's lock either.
    with late:
        assert whole_version(late) == 1
    running.execute("ROLLBACK")
    with exclusive(replica), pytest.raises(apsw.BusyError):
        late.execute("SELECT * FROM meta").fetchall()
    running.close()
    late.close()


PROBE = """
import sys
from pathlib import Path
from service.errors import Unavailable
from service.replica.apply import exclusive
try:
    with exclusive(Path(sys.argv[1]), wait_ms=30):
        print("locked")
except Unavailable:
    print("in use")
"""


def test_closing_the_vfs_file_keeps_this_process_own_read_locks(replica: Path) -> None:
    """POSIX drops all locks of a process with any close; SQLite's VFS object must not."""
    db = open_reader(replica)
    db.execute("BEGIN")
    whole_version(db)
    with pytest.raises(Unavailable), exclusive(replica, wait_ms=1):
        raise AssertionError
    probe = [sys.executable, "-c", PROBE, str(replica)]
    assert subprocess.check_output(probe, text=True).strip() == "in use"
    db.execute("ROLLBACK")
    assert subprocess.check_output(probe, text=True).strip() == "locked"
    # The counter-proof: this test would notice, for a raw descriptor does drop them.
    db.execute("BEGIN")
    whole_version(db)
    replica.open("rb").close()
    assert subprocess.check_output(probe, text=True).strip() == "locked"
    db.close()


READ = """
import sys, time
from pathlib import Path
from service.index.connection import open_reader
from tests.replica.world import whole_version
db = open_reader(Path(sys.argv[1]))
last = reads = 0
print("ready", flush=True)
while last < int(sys.argv[2]):
    with db:
        version = whole_version(db)
        assert whole_version(db) == version >= last
    last = version
    reads += 1
print(reads)
"""


@pytest.fixture
def readers(replica: Path) -> Iterator[list[subprocess.Popen[str]]]:
    command = [sys.executable, "-c", READ, str(replica), "200"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


def test_processes_that_read_all_the_time_see_no_torn_state(
    source: Source, replica: Path, readers: list[subprocess.Popen[str]]
) -> None:
    for process in readers:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for turn in range(1, 200):
        advance(replica, [source.batch()], turn)
    eventually(lambda: all(p.poll() is not None for p in readers), "readers reach the end")
    assert [process.returncode for process in readers] == [0, 0, 0]
    for process in readers:
        assert process.stdout is not None
        assert int(process.stdout.readline()) > 0
