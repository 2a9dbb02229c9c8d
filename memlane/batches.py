"""Cutting lines of NDJSON into batches."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator

from memlane.limits import Limits


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Some lines; the first of them is number `first` of all, from 1."""

    first: int
    lines: list[bytes]

    @property
    def body(self) -> bytes:
        """The lines as a request carries them."""
        return b"\n".join(self.lines) + b"\n"


def cut(lines: Iterable[bytes], limits: Limits) -> Iterator[Batch]:
    """Cut lines into batches, lazily; blank lines keep their numbers.

    A line that is longer than `batch_bytes` is a batch of its own: the service says what it is.
    """
    held: list[bytes] = []
    size, first = 0, 1
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip(b"\r\n")
        full = len(held) >= limits.batch_lines or size + len(line) >= limits.batch_bytes
        if held and full:
            yield Batch(first, held)
            held, size, first = [], 0, number
        held.append(line)
        size += len(line) + 1
    if held:
        yield Batch(first, held)
