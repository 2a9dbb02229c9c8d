from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memlane import Limits, cut


@given(
    lines=st.lists(
        st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b"").replace(b"\r", b""))
    ),
    most_lines=st.integers(1, 5),
    most_bytes=st.integers(1, 60),
)
def test_nothing_is_lost_and_no_batch_is_too_large_unless_one_line_is(
    lines: list[bytes], most_lines: int, most_bytes: int
) -> None:
    batches = list(cut(lines, Limits(batch_lines=most_lines, batch_bytes=most_bytes)))
    assert [line for batch in batches for line in batch.lines] == lines
    at = 1
    for batch in batches:
        assert batch.first == at
        at += len(batch.lines)
        assert len(batch.lines) <= most_lines
        assert len(batch.body) <= most_bytes or len(batch.lines) == 1
