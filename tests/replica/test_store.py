from __future__ import annotations

import threading
from pathlib import Path

import pytest

from service.errors import ReplicationError
from service.replica.store import Absent, FolderStore, Stored


def test_an_object_is_read_once_for_each_change(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    assert store.get("heads/0.json") is Absent.MISSING
    store.put("heads/0.json", b"one")
    first = store.get("heads/0.json")
    assert isinstance(first, Stored)
    assert first.body == b"one"
    assert store.get("heads/0.json", known_etag=first.etag) is Absent.UNCHANGED
    store.put("heads/0.json", b"one")  # equal body, new object
    second = store.get("heads/0.json", known_etag=first.etag)
    assert isinstance(second, Stored)
    assert second.etag != first.etag


def test_a_reader_sees_old_or_new_and_never_a_mix(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("a/x", b"0" * 100_000)
    done = threading.Event()

    def write() -> None:
        for turn in range(200):
            store.put("a/x", str(turn % 10).encode() * 100_000)
        done.set()

    thread = threading.Thread(target=write)
    thread.start()
    reads = 0
    while not done.is_set():
        found = store.get("a/x")
        assert isinstance(found, Stored)
        assert len(found.body) == 100_000
        assert len(set(found.body)) == 1
        reads += 1
    thread.join()
    assert reads > 0
    assert [item.key for item in store.list("a/")] == ["a/x"]  # no drafts left


def test_listing_finds_what_is_below_a_prefix_and_no_drafts(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    for key in ("v1/a/1.db/ltx/0/x.ltx", "v1/a/1.db/ltx/9/y.ltx", "v1/b/1.db/ltx/0/z.ltx"):
        store.put(key, b"12345")
    (tmp_path / "v1/a/1.db/ltx/0/half.ltx.tmp").write_bytes(b"")
    found = {item.key: item.size for item in store.list("v1/a/1.db/")}
    assert found == {"v1/a/1.db/ltx/0/x.ltx": 5, "v1/a/1.db/ltx/9/y.ltx": 5}
    assert list(store.list("v1/nothing/")) == []


def test_an_open_object_outlives_its_deletion(tmp_path: Path) -> None:
    store = FolderStore(tmp_path)
    store.put("a", b"body")
    stream = store.open("a")
    store.delete("a")
    store.delete("a")
    assert stream is not None
    with stream:
        assert stream.read() == b"body"
    assert store.open("a") is None


def test_a_store_that_cannot_be_written_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ReplicationError) as caught:
        FolderStore(tmp_path / "file").put("heads/0.json", b"{}")
    assert caught.value.hint
