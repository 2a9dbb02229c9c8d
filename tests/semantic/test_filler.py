"""The backfill's work on one file, against a sidecar that speaks the real protocol."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from service.index.document import Delete
from service.index.reader import IndexReader
from service.index.vectors import read_stamp, read_vectors
from service.semantic.flights import Failure
from service.semantic.sidecar import Sidecar, SidecarError
from tests.semantic.one_file import OneFile
from tests.semantic.sidecar import DIMS, MODEL, FakeSidecar, serve


@pytest.fixture
def sidecar() -> Iterator[tuple[FakeSidecar, int]]:
    fake = FakeSidecar()
    server, port = serve(fake)
    yield fake, port
    server.stop(0)


@pytest.fixture
def file(tmp_path: Path, sidecar: tuple[FakeSidecar, int]) -> Iterator[OneFile]:
    one = OneFile(tmp_path / "t.db", *sidecar)
    yield one
    one.client.close()


def words(count: int, word: str = "w") -> str:
    return " ".join(f"{word}{number}" for number in range(count))


def test_every_document_gets_its_vectors_light_kinds_first(file: OneFile) -> None:
    file.put("s", words(300), kind="session")
    file.put("t", "a task", kind="task")
    file.put("n", "a note", kind="note")
    file.fill()
    assert file.rows() == [("n", 0), ("s", 0), ("s", 1), ("s", 2), ("t", 0)]
    assert file.sidecar.passages[:2] == ["a note", "a task"]
    status = file.status()
    assert (status["coverage"], status["model"], status["pending"]) == (1.0, MODEL, 0)
    assert status["oldest_missing_ms"] is None
    assert status["by_kind"] == {
        kind: {"documents": 1, "complete": 1, "coverage": 1.0}
        for kind in ("note", "session", "task")
    }


def test_what_is_read_back_is_what_the_sidecar_made(file: OneFile) -> None:
    file.put("a", "the first")
    file.put("b", "the second")
    file.fill()
    reader = IndexReader(file.path)
    with reader.snapshot():
        stamp = read_stamp(reader.connection)
        ids = np.array([1, 2, 99], dtype=np.int64)
        found = read_vectors(reader.connection, ids, stamp.dims)
    assert (stamp.model, stamp.dims, stamp.current, stamp.percent) == (MODEL, DIMS, True, 100)
    assert found.owners.tolist() == [0, 1]
    assert found.vectors.shape == (2, DIMS)


def test_a_changed_document_embeds_only_its_changed_passages(file: OneFile) -> None:
    file.put("a", words(128) + " " + words(128, "x"))
    file.fill()
    assert len(file.sidecar.passages) == 2
    file.put("a", words(128) + " " + words(128, "y"))
    assert file.rows() == [("a", -1)], "the digest waits; what no longer stands there is gone"
    assert file.status()["coverage"] == 0.0
    file.fill()
    assert len(file.sidecar.passages) == 3
    assert file.rows() == [("a", 0), ("a", 1)]
    file.put("a", words(128) + " " + words(128, "y"), title="")
    file.fill()
    assert len(file.sidecar.passages) == 3


def test_a_digest_that_changes_keeps_the_passages_behind_it(file: OneFile) -> None:
    file.put("a", "x" + words(128) + " " + words(128, "y"))
    file.fill()
    file.put("a", "z" + words(128) + " " + words(128, "y"))
    assert file.rows() == [("a", 1)]
    file.fill()
    assert len(file.sidecar.passages) == 3
    assert file.rows() == [("a", 0), ("a", 1)]


def test_a_deleted_document_leaves_nothing(file: OneFile) -> None:
    file.put("a", words(10_000))
    file.put("b", "left")
    file.fill()
    assert file.status()["dropped_chars"] != 0
    file.index.apply([Delete(line=1, kind="note", ref="a")])
    assert file.rows() == [("b", 0)]
    status = file.status()
    assert (status["dropped_chars"], status["pending"], status["complete"]) == (0, 0, 1)


def test_what_the_cap_drops_of_a_very_long_note_is_counted(file: OneFile) -> None:
    note = words(10_000)
    file.put("a", note)
    file.fill()
    assert len(file.rows()) == 64
    kept = words(64 * 128)
    assert file.status()["dropped_chars"] == len(note) - len(kept) - 1


def test_line_ends_do_not_change_what_is_embedded(file: OneFile) -> None:
    file.put("a", "one\r\ntwo\rthree\nfour", title="t\r\n")
    file.fill()
    assert file.sidecar.passages == ["t\n\none\ntwo\nthree\nfour"]


def test_a_document_without_text_is_known_by_its_ref(file: OneFile) -> None:
    file.put("only-a-ref", " \r\n ")
    file.fill()
    assert file.sidecar.passages == ["only-a-ref"]
    assert file.status()["coverage"] == 1.0


def test_one_bad_document_is_given_up_with_its_reason_and_tried_again_when_it_changes(
    file: OneFile,
) -> None:
    file.sidecar.refuse = "poison"
    for ref in "abcdefgh":
        file.put(ref, "poison" if ref == "c" else f"note {ref}")
    file.fill()
    status = file.status()
    assert (status["complete"], status["quarantined"], status["pending"]) == (7, 1, 0)
    assert status["reasons"] == {"INVALID_ARGUMENT": 1}
    assert status["oldest_missing_ms"] is None
    file.put("c", "cured")
    assert file.status()["reasons"] == {}
    file.fill()
    assert file.status()["coverage"] == 1.0


def test_what_kills_the_sidecar_again_and_again_is_given_up(file: OneFile) -> None:
    file.sidecar.crash = "bomb"
    for ref in "abc":
        file.put(ref, "bomb" if ref == "b" else f"note {ref}")
    for _ in range(file.settings.backfill_attempts - 1):
        with pytest.raises(SidecarError, match="UNAVAILABLE"):
            file.fill()
        assert file.status()["quarantined"] == 0
    file.fill()
    status = file.status()
    assert (status["complete"], status["reasons"]) == (2, {"UNAVAILABLE": 1})


def test_a_sidecar_that_is_down_gives_nothing_up(file: OneFile) -> None:
    file.put("a", "text")
    file.filler.advance("file", file.client.info())
    file.put("b", "text b")
    file.sidecar.model = "another@000000000000"
    with pytest.raises(SidecarError):
        # What Info said is not true any more.
        file.filler.advance("file", type(file.client.info())(MODEL, DIMS, 64))
    assert file.status()["reasons"] == {}


def test_another_model_makes_vectors_anew_and_nothing_else(file: OneFile) -> None:
    file.put("a", "text")
    file.fill()
    version = file.index.version
    file.sidecar.model = "another@000000000000"
    file.fill()
    assert file.sidecar.passages == ["text", "text"]
    assert file.status()["model"] == "another@000000000000"
    assert file.index.version == version, "no answer without vectors changes by it"


def test_after_a_kill_no_passage_is_embedded_twice_but_those_under_way(
    tmp_path: Path, sidecar: tuple[FakeSidecar, int]
) -> None:
    file = OneFile(tmp_path / "t.db", *sidecar, backfill_passages=2)
    for number in range(5):
        file.put(f"long{number}", words(128 * 6, f"n{number}x"))
    begun = threading.Event()

    class KilledError(Exception):
        pass

    def dies(texts: list[str], *, model: str) -> list[bytes]:
        found = Sidecar.embed(file.client, texts, model=model)
        if len(file.sidecar.passages) >= 11:
            begun.set()
            raise KilledError  # embedded, and never committed
        return found

    file.client.embed = dies  # type: ignore[method-assign,assignment]
    with pytest.raises(KilledError):
        file.fill()
    del file.client.embed
    file.restart()
    file.fill()
    assert file.status()["coverage"] == 1.0
    under_way = file.settings.backfill_requests * 2
    assert 30 < len(file.sidecar.passages) <= 30 + under_way
    assert len(set(file.sidecar.passages)) == 30
    file.client.close()


def test_several_requests_are_under_way_and_a_failed_one_loses_nothing(
    tmp_path: Path, sidecar: tuple[FakeSidecar, int]
) -> None:
    file = OneFile(tmp_path / "t.db", *sidecar, backfill_passages=2, backfill_requests=3)
    for number in range(6):
        file.put(f"long{number}", words(128 * 6, f"n{number}x"))
    lock, now, most, calls = threading.Lock(), 0, 0, 0
    embed = file.client.embed

    def watched(texts: list[str], *, model: str) -> list[bytes]:
        nonlocal now, most, calls
        with lock:
            now, calls = now + 1, calls + 1
            most, call = max(most, now), calls
        try:
            time.sleep(0.02)
            if call == 5:
                raise SidecarError(Failure.OVERLOADED, "RESOURCE_EXHAUSTED")
            return embed(texts, model=model)
        finally:
            with lock:
                now -= 1

    file.client.embed = watched  # type: ignore[method-assign,assignment]
    with pytest.raises(SidecarError):
        file.fill()
    complete = {ref for ref, seq in file.rows() if seq == 0}
    assert all(rows_of(file, ref) == list(range(6)) for ref in complete), "the digest comes last"
    file.fill()
    assert most == 3
    assert file.status()["coverage"] == 1.0
    assert set(Counter(file.rows()).values()) == {1}
    file.client.close()


def rows_of(file: OneFile, ref: str) -> list[int]:
    return [seq for found, seq in file.rows() if found == ref]
