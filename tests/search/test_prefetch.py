from __future__ import annotations

from pathlib import Path

from hypothesis import given

from service.index.reader import IndexReader
from service.search.prefetch import RUN_CHARS, TERMS, as_query, until
from service.text import parse_query
from tests.http.real import Stall
from tests.search.world import World
from tests.text.strategies import texts


def test_a_short_text_is_asked_for_as_it_stands() -> None:
    assert as_query("  how do I\nrotate keys? ") == "how do I rotate keys?"


def test_nothing_in_a_text_is_grammar() -> None:
    told = 'after:2026-01-01 he said "never do that" -kind:note kind:task --force -x'
    read = parse_query(as_query(told))
    assert (read.phrases, read.excluded, read.kinds, read.updated_after_ms) == ((), (), (), None)
    assert "never do that" in read.text


@given(texts)
def test_no_text_at_all_is_grammar(text: str) -> None:
    read = parse_query(as_query(text))
    assert (read.phrases, read.excluded, read.kinds) == ((), (), ())
    assert read.updated_after_ms is None
    assert read.updated_before_ms is None


def test_of_a_long_text_identifiers_and_what_is_repeated_are_asked_for() -> None:
    filler = " ".join(f"w{chr(97 + n % 26)}{chr(97 + n // 26)}rd so it is" for n in range(400))
    text = f"Please look at the flaky gateway. {filler} See OPS-2041 and gateway again. Thanks!"
    words = as_query(text).split()
    assert len(words) <= TERMS
    assert "ops-2041" in words
    assert "gateway" in words
    assert "is" not in words
    assert words.index("gateway") < words.index("ops-2041")


def test_a_long_text_without_spaces_is_cut_down_too() -> None:
    text = "网关在失败后自动重试三次。" * 300 + "最后返回错误，请看日志。"
    query = as_query(text)
    assert 0 < len(query) <= TERMS * (RUN_CHARS + 1)
    assert "网关在失败后自动重试三次" in query


@given(texts)
def test_a_query_is_short_whatever_the_text(text: str) -> None:
    assert len(as_query(text * 50)) <= max(TERMS * 80, len(" ".join(text.split())) + 1)


def test_work_that_is_late_is_cut_short_and_the_reader_goes_on(tmp_path: Path) -> None:
    reader = IndexReader(World(tmp_path, [{"ref": "a", "title": "t"}]).path)
    looks = iter([False] * 5 + [True])
    stall = Stall()
    with reader.snapshot():
        assert until(reader, lambda: next(looks), lambda: stall(reader)) is None
        assert stall.ended.is_set()
        assert until(reader, lambda: False, lambda: reader.docs) == 1
        assert reader.get([("note", "a")])[0] is not None
    reader.close()
