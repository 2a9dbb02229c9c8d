from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from golden.fleet import records


@given(st.integers(0, 1_000), st.integers(0, 1_000))
def test_a_document_proves_itself(number: int, round_: int) -> None:
    made = records.document("t1", number, round_)
    assert made == records.document("t1", number, round_)
    assert records.verdict("t1", made) == "sound"
    assert records.round_of(made) == round_
    assert records.verdict("t2", made) == "foreign"


@given(st.sampled_from(["title", "note"]))
def test_half_of_one_writing_and_half_of_another_is_torn(field: str) -> None:
    first, second = records.document("t1", 7, 1), records.document("t1", 7, 2)
    assert records.verdict("t1", first | {field: second[field]}) == "torn"
    assert records.verdict("t1", {"title": "x", "note": "y", "meta": ""}) == "torn"
