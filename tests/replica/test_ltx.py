from __future__ import annotations

import io

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from service.errors import ReplicationError
from service.replica.ltx import NO_CHECKSUM, Header, Reader, encode, verify

PAGE = 512


def header(low: int, high: int, commit: int) -> Header:
    return Header(NO_CHECKSUM, PAGE, commit, low, high, timestamp_ms=1_796_080_393_477)


pages = st.dictionaries(st.integers(1, 40), st.binary(min_size=PAGE, max_size=PAGE), max_size=8)


@given(pages=pages)
def test_what_is_encoded_comes_back(pages: dict[int, bytes]) -> None:
    reader = Reader(io.BytesIO(encode(header(5, 9, 40), pages)))
    assert reader.header == header(5, 9, 40)
    assert list(reader.pages()) == sorted(pages.items())


PAGES = {1: bytes(PAGE), 4: b"four" * 128, 9: bytes(range(256)) * 2}
SAMPLE = encode(header(2, 3, 9), PAGES)


@given(at=st.integers(0, len(SAMPLE) * 8 - 1))
@example(at=896)
def test_a_flipped_bit_is_refused_or_changes_no_page(at: int) -> None:
    """A few bits of an LZ4 block do not matter: in a page of zeros, how far back to copy from."""
    damaged = bytearray(SAMPLE)
    damaged[at // 8] ^= 1 << at % 8
    try:
        reader = Reader(io.BytesIO(damaged))
        found = dict(reader.pages())
    except ReplicationError:
        return
    assert (reader.header, found) == (header(2, 3, 9), PAGES)


@pytest.mark.parametrize("part", ["header", "frame", "block", "index", "trailer"])
def test_damage_in_any_part_is_refused(part: str) -> None:
    at = {"header": 33, "frame": 103, "block": -150, "index": -26, "trailer": -5}[part]
    damaged = bytearray(SAMPLE)
    damaged[at] ^= 0x01
    with pytest.raises(ReplicationError):
        verify(io.BytesIO(damaged))


@given(length=st.integers(0, len(SAMPLE) - 1))
def test_a_file_cut_short_is_refused(length: int) -> None:
    with pytest.raises(ReplicationError):
        verify(io.BytesIO(SAMPLE[:length]))


def test_a_file_that_goes_on_is_refused() -> None:
    with pytest.raises(ReplicationError, match="goes on"):
        verify(io.BytesIO(SAMPLE + b"x"))


def test_a_snapshot_must_hold_every_page() -> None:
    full = {n: bytes([n]) * PAGE for n in (1, 2, 3)}
    assert verify(io.BytesIO(encode(header(1, 4, 3), full))).max_txid == 4
    for missing in full:
        rest = {n: page for n, page in full.items() if n != missing}
        with pytest.raises(ReplicationError):
            verify(io.BytesIO(encode(header(1, 4, 3), rest)))


def test_a_page_beyond_the_database_is_refused() -> None:
    with pytest.raises(ReplicationError, match="out of place"):
        verify(io.BytesIO(encode(header(2, 2, 3), {4: bytes(PAGE)})))


def test_the_lock_page_never_carries_data() -> None:
    lock = 0x40000000 // PAGE + 1
    with pytest.raises(ReplicationError, match="out of place"):
        verify(io.BytesIO(encode(header(2, 2, lock + 5), {lock: bytes(PAGE)})))
    assert verify(io.BytesIO(encode(header(2, 2, lock + 5), {lock + 1: bytes(PAGE)})))


def test_a_file_whose_checksums_we_cannot_check_is_refused() -> None:
    tracked = Header(0, PAGE, 3, 2, 2, 0)
    with pytest.raises(ReplicationError, match="unknown flags"):
        verify(io.BytesIO(encode(tracked, {})))
