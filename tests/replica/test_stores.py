"""What every object store must do, on a folder and on a real S3-compatible server."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import secrets
import socket
import socketserver
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from golden.fleet.objects import S3
from service.errors import ReplicationError, SetupError
from service.replica import store as folder_store
from service.replica.s3_store import CHUNK_BYTES, SPOOL_BYTES, S3Store
from service.replica.store import Absent, FolderStore, ObjectStore, Stored
from service.replica.stores import open_store, store_url
from service.settings import Settings

THREADS, PROCESSES, ROUNDS = 4, 2, 8
SETTINGS = Settings(store_timeout_ms=5_000)
_fresh = itertools.count()


@pytest.fixture(params=["folder", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that nobody used before."""
    if request.param == "folder":
        return str(tmp_path / "store")
    server: S3 = request.getfixturevalue("s3")
    return server.url.replace("/fleet?", f"/test-{next(_fresh)}?")


@pytest.fixture
def store(url: str) -> ObjectStore:
    return open_store(url, SETTINGS)


def test_an_object_is_read_once_for_each_change(store: ObjectStore) -> None:
    assert store.get("heads/0.json") is Absent.MISSING
    store.put("heads/0.json", b"one")
    first = store.get("heads/0.json")
    assert isinstance(first, Stored)
    assert first.body == b"one"
    assert store.get("heads/0.json", known_etag=first.etag) is Absent.UNCHANGED
    store.put("heads/0.json", b"two")
    second = store.get("heads/0.json", known_etag=first.etag)
    assert isinstance(second, Stored)
    assert (second.body, second.etag != first.etag) == (b"two", True)


@pytest.mark.parametrize("size", [0, 5, SPOOL_BYTES + 3])
def test_an_open_object_can_be_read_anywhere_and_outlives_its_deletion(
    store: ObjectStore, size: int
) -> None:
    body = (b"0123456789" * (size // 10 + 1))[:size]
    store.put("v1/a/x.ltx", body)
    stream = store.open("v1/a/x.ltx")
    assert stream is not None
    with stream:
        store.delete("v1/a/x.ltx")
        assert stream.read(3) == body[:3]
        stream.seek(max(0, size - 2))
        assert stream.read() == body[-2:]
        stream.seek(0)
        assert stream.read() == body
    assert store.open("v1/a/x.ltx") is None


def test_listing_and_deleting_go_by_whole_prefixes(store: ObjectStore) -> None:
    keys = [
        "v1/a/1.db/0/x",
        "v1/a/1.db/9/y",
        "v1/a/2.db/0/x",
        "v1/ab/1.db/0/x",
        "heads/a b+c%2F#?é文.json",
    ]
    for key in keys:
        store.put(key, b"12345")
    assert {(item.key, item.size) for item in store.list("v1/a/")} == {(k, 5) for k in keys[:3]}
    assert [item.key for item in store.list("heads/")] == keys[4:]
    assert list(store.list("v1/nothing/")) == []
    assert store.delete_prefix("v1/a/") == 3
    assert store.delete_prefix("v1/a/") == 0
    assert [item.key for item in store.list("v1/")] == ["v1/ab/1.db/0/x"]
    store.delete("v1/ab/1.db/0/x")
    store.delete("v1/ab/1.db/0/x")  # again, and nothing is wrong
    assert list(store.list("v1/")) == []


@pytest.mark.parametrize(
    "key", ["", "/abs", "a/", "a//b", "../x", "a/../../b", "./a", "a\\b", "a\nb", "a\0b", "\ud800"]
)
def test_what_a_store_could_take_for_another_key_is_refused(store: ObjectStore, key: str) -> None:
    calls: list[Callable[[], object]] = [
        lambda: store.get(key),
        lambda: store.open(key),
        lambda: store.put(key, b""),
        lambda: store.put_if(key, b"", known_etag=None),
        lambda: store.delete(key),
        lambda: list(store.list(f"{key}/")),
        lambda: store.delete_prefix(f"{key}/"),
    ]
    for call in calls:
        with pytest.raises(ReplicationError, match="object key"):
            call()


@pytest.mark.parametrize("prefix", ["", "v1"])
def test_a_prefix_ends_with_a_slash(store: ObjectStore, prefix: str) -> None:
    """`v1` could mean `v10/` too, and nothing removes a whole store."""
    store.put("v1/a", b"1")
    for call in (lambda: list(store.list(prefix)), lambda: store.delete_prefix(prefix)):
        with pytest.raises(ReplicationError, match="end with /"):
            call()
    assert store.get("v1/a") != Absent.MISSING


def test_more_objects_than_one_answer_lists(store: ObjectStore) -> None:
    keys = {f"many/{number:04d}" for number in range(1_100)}

    def put(part: list[str]) -> None:
        for key in part:
            store.put(key, b"")

    ordered = sorted(keys)
    _together([lambda part=ordered[n::8]: put(part) for n in range(8)])  # type: ignore[misc]
    assert {item.key for item in store.list("many/")} == keys
    assert store.delete_prefix("many/") == 1_100
    assert list(store.list("many/")) == []


def test_a_conditional_write_needs_the_state_it_names(store: ObjectStore) -> None:
    etag = store.put_if("a/b", b"1", known_etag=None)
    assert store.get("a/b") == Stored(b"1", str(etag))
    assert store.put_if("a/b", b"2", known_etag=None) is None
    assert store.put_if("a/b", b"2", known_etag=f'{str(etag)[:-2]}0"') is None
    assert store.put_if("a/c", b"2", known_etag=etag) is None
    second = store.put_if("a/b", b"2", known_etag=etag)
    assert store.get("a/b") == Stored(b"2", str(second))
    assert store.put_if("a/b", b"3", known_etag=etag) is None
    assert [item.key for item in store.list("a/")] == ["a/b"]


def test_of_those_who_write_over_the_same_state_one_succeeds(url: str) -> None:
    _together([lambda: _count(url) for _ in range(THREADS)])
    stored = open_store(url, SETTINGS).get("a/counter")
    assert isinstance(stored, Stored)
    assert int(stored.body) == THREADS * ROUNDS


def test_processes_exclude_each_other_too(tmp_path: Path) -> None:
    """On a folder, where it is our own doing; a server does not know who asks."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_count, args=(str(tmp_path),)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    stored = FolderStore(tmp_path).get("a/counter")
    assert isinstance(stored, Stored)
    assert int(stored.body) == PROCESSES * ROUNDS


def test_a_lock_that_a_paused_process_holds_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(folder_store, "LOCK_S", 0.05)
    store = FolderStore(tmp_path)
    store.put_if("a", b"1", known_etag=None)
    (lock,) = tmp_path.rglob("*.lock.tmp")
    with folder_store._locked(lock, "a"), pytest.raises(ReplicationError, match="locked"):
        store.put_if("a", b"2", known_etag=None)


def test_a_store_that_does_not_answer_is_an_error_that_says_what_to_check() -> None:
    url = "s3://bucket/prefix?endpoint=http://127.0.0.1:9"
    store = open_store(url, Settings(store_timeout_ms=500, store_retries=0))
    calls: list[Callable[[], object]] = [
        lambda: store.get("a"),
        lambda: store.open("a"),
        lambda: store.put("a", b""),
        lambda: store.put_if("a", b"", known_etag=None),
        lambda: list(store.list("a/")),
        lambda: store.delete("a"),
        lambda: store.delete_prefix("a/"),
    ]
    for call in calls:
        with pytest.raises(ReplicationError) as caught:
            call()
        assert "credentials" in caught.value.hint


def test_wrong_credentials_are_an_error(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(ReplicationError, match="cannot read object a"):
        open_store(s3.url, SETTINGS).get("a")


def test_a_link_too_slow_for_one_request_takes_several(s3: S3) -> None:
    """A link that brings a part of each answer and stalls, like a slow one at the timeout."""
    body = secrets.token_bytes(4 * CHUNK_BYTES)
    open_store(s3.url, SETTINGS).put("v1/slow.ltx", body)
    patient = Settings(store_timeout_ms=1_000, store_retries=0)
    with _stalling_link(s3.url, 2 * CHUNK_BYTES) as (url, answers):
        stream = open_store(url, patient).open("v1/slow.ltx")
        assert stream is not None
        with stream:
            assert stream.read() == body
        assert len(answers) > 1
    with (
        _stalling_link(s3.url, CHUNK_BYTES // 2) as (url, _),
        pytest.raises(ReplicationError, match=r"cannot open object v1/slow\.ltx"),
    ):
        open_store(url, patient).open("v1/slow.ltx")


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gs://bucket",
        "s3://",
        "s3:///prefix",
        "s3://key:secret@bucket/prefix",
        "s3://bucket?endpoint=ftp://x",
        "s3://bucket?secret=x",
        "s3://bucket/a//b",
        "s3://bucket/a/../..",
        "file://elsewhere/path",
    ],
)
def test_what_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(SetupError) as caught:
        open_store(url, SETTINGS)
    assert "s3://bucket/prefix" in caught.value.hint


def test_a_url_names_the_same_store_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("store", "./store", str(tmp_path / "store"), f"file://{tmp_path}/store"):
        opened = open_store(store_url(url), SETTINGS)
        assert isinstance(opened, FolderStore)
        assert opened.url == str(tmp_path / "store")
    url = "s3://bucket/some/prefix?region=eu-1&endpoint=http://127.0.0.1:9"
    opened = open_store(store_url(url), SETTINGS)
    assert isinstance(opened, S3Store)
    assert opened.url == url
    assert dict(opened.litestream_replica) == {
        "type": "s3",
        "bucket": "bucket",
        "path": "some/prefix/v1",
        "region": "eu-1",
        "endpoint": "http://127.0.0.1:9",
        "force-path-style": True,
    }


def _count(url: str) -> None:
    """Add one to a counter, so many times as nobody came in between."""
    store, done = open_store(url, SETTINGS), 0
    while done < ROUNDS:
        found = store.get("a/counter")
        known = found if isinstance(found, Stored) else None
        body = b"%d" % (1 if known is None else int(known.body) + 1)
        etag = known.etag if known else None
        done += store.put_if("a/counter", body, known_etag=etag) is not None


@contextlib.contextmanager
def _stalling_link(url: str, limit: int) -> Iterator[tuple[str, list[socket.socket]]]:
    """A URL of the same store whose answers end after `limit` bytes, in silence."""
    parts = urlsplit(url)
    server = urlsplit(parse_qs(parts.query)["endpoint"][0])
    assert server.port is not None
    answers: list[socket.socket] = []

    class Link(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.create_connection(("127.0.0.1", server.port or 0)) as behind:
                answers.append(behind)
                threading.Thread(target=self._requests, args=(behind,), daemon=True).start()
                left = limit
                while left > 0 and (part := behind.recv(min(left, 65_536))):
                    self.request.sendall(part)
                    left -= len(part)
                gone.wait(10)

        def _requests(self, behind: socket.socket) -> None:
            with contextlib.suppress(OSError):
                while part := self.request.recv(65_536):
                    behind.sendall(part)

    gone = threading.Event()
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Link) as link:
        link.daemon_threads = True
        link.block_on_close = False
        threading.Thread(target=link.serve_forever, args=(0.05,), daemon=True).start()
        yield url.replace(f":{server.port}", f":{link.server_address[1]}"), answers
        gone.set()
        link.shutdown()


def _together(works: list[Callable[[], object]]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
