from __future__ import annotations

from pathlib import Path

import pytest

from service.errors import InvalidDocument, SetupError, Unavailable
from service.sources.push import Pusher, Summary, batches, open_lines
from tests.sources.world import Hosted, InProcess


def push(hosted: Hosted, *lines: bytes, scope: str = "sync", keep_valid: bool = False) -> Summary:
    summary = Summary()
    pusher = Pusher(
        "http://testserver",
        hosted.keys[scope],
        keep_valid=keep_valid,
        transport=InProcess(hosted.http),
        sleep=lambda _: None,
    )
    with pusher:
        for batch in batches(lines):
            pusher.push(batch, summary)
    return summary


A = b'{"kind":"note","ref":"a","updated_at":5}\n'
GONE = b'{"op":"delete","kind":"note","ref":"a"}\n'


def test_pushing_again_what_was_deleted_meanwhile_brings_it_back(hosted: Hosted) -> None:
    """The second push is the first one's bytes, and must not get the first one's answer."""
    for lines, result in ((A, "created"), (GONE, "deleted"), (A, "created"), (A, "unchanged")):
        assert push(hosted, lines).counts == {result: 1}
    assert set(hosted.documents()) == {("note", "a")}


def test_refused_lines_are_named_by_their_number_in_the_file(hosted: Hosted) -> None:
    lines = [A, b"\n", b"{oops\n"]
    with pytest.raises(InvalidDocument, match="line 3: not JSON"):
        push(hosted, *lines)
    assert hosted.documents() == {}
    summary = push(hosted, *lines, keep_valid=True)
    assert summary.counts == {"created": 1, "refused": 1}
    assert [line["line"] for line in summary.refused] == [3]


def test_a_key_without_the_right_is_told_in_the_services_words(hosted: Hosted) -> None:
    with pytest.raises(SetupError, match="sync"):
        push(hosted, A, scope="search")


def test_nobody_there_says_that_it_can_be_repeated() -> None:
    pusher = Pusher("http://127.0.0.1:1", "k", sleep=lambda _: None)
    with pusher, pytest.raises(Unavailable) as caught:
        pusher.push(next(batches([A])), Summary())
    assert "again" in caught.value.hint


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be read"):
        open_lines(tmp_path / "none")
