from __future__ import annotations

import zlib

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from service.ranking import sheet

WORDS = st.lists(st.sampled_from(["gateway", "retry", "重试", "c++", "é", "x"]), max_size=40)


def test_a_sheet_is_the_documented_bytes() -> None:
    raw = np.frombuffer(sheet.encode(["a", "a"], ["a", "b", "b", "b"]), dtype="<u4").tolist()
    entry_a = (zlib.crc32(b"a") & sheet.HASH_MASK) << 6 | 1 << 2 | 2
    entry_b = (zlib.crc32(b"b") & sheet.HASH_MASK) << 6 | 3 << 2
    assert raw[:2] == [2, 4]
    assert sorted(raw[2:]) == sorted([entry_a, entry_b])
    assert sheet.lengths(sheet.encode(["a", "a"], ["b"])[:8]) == (2, 1)


@given(st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=8))
def test_counts_are_those_of_the_documents(documents: list[tuple[list[str], list[str]]]) -> None:
    sheets = sheet.Sheets(sheet.encode(title, body) for title, body in documents)
    assert sheets.title_length.tolist() == [len(title) for title, _ in documents]
    assert sheets.body_length.tolist() == [len(body) for _, body in documents]
    for word in ("gateway", "重试", "absent"):
        title, body = sheets.counts(word)
        assert title.tolist() == [min(3, t.count(word)) for t, _ in documents]
        for held, (_, words) in zip(body.tolist(), documents, strict=True):
            assert (held > 0) == (word in words)
            assert held <= words.count(word)
            if words.count(word) <= 6:
                assert held == words.count(word)


def test_large_counts_take_the_lower_step() -> None:
    sheets = sheet.Sheets([sheet.encode([], ["a"] * n) for n in (7, 9, 31, 255, 256, 100_000)])
    assert sheets.counts("a")[1].tolist() == [6, 8, 24, 128, 256, 256]


def test_an_empty_document_and_an_empty_pool() -> None:
    assert sheet.Sheets([sheet.encode([], [])]).counts("a")[0].tolist() == [0]
    assert sheet.Sheets([]).count == 0
