from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import ReplicationError
from service.replica.heads import Head, Heads, decode, encode
from service.replica.names import new_file

numbers = st.integers(0, 2**53)
files = st.builds(new_file)
documents = st.builds(
    Heads,
    shard=st.text("abc0", min_size=1),
    seq=numbers,
    published_at=numbers,
    tenants=st.dictionaries(
        files, st.builds(Head, numbers, numbers, numbers, numbers, numbers), max_size=4
    ),
    registry=st.none() | files,
    put_ms=numbers,
    term=numbers,
    owner=st.text("ab/1"),
)


@given(heads=documents)
def test_a_document_comes_back(heads: Heads) -> None:
    assert decode(encode(heads)) == heads


def test_the_shape_that_readers_of_other_releases_rely_on() -> None:
    file = "a" * 26
    heads = Heads("0", 17, 1_000, {file: Head(1, 42, 40, 900)}, file, 3, 7, "a/1")
    assert orjson.loads(encode(heads)) == {
        "shard": "0",
        "seq": 17,
        "published_at": 1_000,
        "put_ms": 3,
        "term": 7,
        "owner": "a/1",
        "registry": file,
        "tenants": {file: {"epoch": 1, "txid": 42, "version": 40, "committed_at": 900}},
    }


def test_documents_from_before_there_were_owners_are_read() -> None:
    old = b'{"shard": "0", "seq": 1, "published_at": 5, "tenants": {}}'
    assert decode(old) == Heads("0", 1, 5, {}, term=0, owner="")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b'{"shard": "0", "seq": 1}',
        b'{"shard": "0", "seq": -1, "published_at": 0, "tenants": {}}',
        b'{"shard": "0", "seq": 1, "published_at": 0, "tenants": {"../../x": {}}}',
        b'{"shard": "0", "seq": 1, "published_at": 0, "tenants": {}, "registry": "../x"}',
        b'{"shard": "0", "seq": 1, "published_at": 0, "tenants": []}',
    ],
)
def test_anything_else_is_refused(body: bytes) -> None:
    with pytest.raises(ReplicationError):
        decode(body)
