"""Reading a batch: NDJSON, line by line, however it is cut into chunks.

Memory is bounded: a line over its limit is never held, only counted.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import AsyncIterator, Iterator
from typing import Final

from service.errors import InvalidDocument, TooLarge
from service.index.document import Operation, parse_line
from service.settings import Settings

REPORTED: Final = 100
"""Most refused lines that an answer describes; the others are counted."""


@dataclasses.dataclass(frozen=True, slots=True)
class Line:
    """One physical line of a body.

    Attributes:
        number: from 1.
        raw: its bytes without the newline; None when it was too long to be held.
    """

    number: int
    raw: bytes | None


class LineSplitter:
    """Cuts a stream of bytes into lines.

    Args:
        line_bytes: the longest line that is handed out.
    """

    def __init__(self, *, line_bytes: int) -> None:
        self._most = line_bytes
        self._held = bytearray()
        self._dropping = False
        self.number = 1
        """The line that is being read, from 1."""

    def feed(self, chunk: bytes) -> Iterator[Line]:
        """The lines that this chunk completes."""
        begin = 0
        while (end := chunk.find(b"\n", begin)) >= 0:
            self._hold(chunk, begin, end)
            yield self._take()
            begin = end + 1
        self._hold(chunk, begin, len(chunk))

    def end(self) -> Iterator[Line]:
        """The last line, if the body does not end with a newline."""
        if self._held or self._dropping:
            yield self._take()

    def _hold(self, chunk: bytes, begin: int, end: int) -> None:
        if self._dropping or len(self._held) + end - begin > self._most:
            self._dropping = True
            self._held.clear()
        else:
            self._held += memoryview(chunk)[begin:end]

    def _take(self) -> Line:
        line = Line(self.number, None if self._dropping else bytes(self._held))
        self._held.clear()
        self._dropping = False
        self.number += 1
        return line


@dataclasses.dataclass(slots=True)
class Batch:
    """A batch that was read to its end.

    Attributes:
        operations: the lines that can be taken, in order.
        refused: how many cannot.
        reports: the first `REPORTED` of those: line, error, hint.
        digest: SHA-256 of the body and of how it is to be applied.
    """

    operations: list[Operation] = dataclasses.field(default_factory=list)
    refused: int = 0
    reports: list[dict[str, object]] = dataclasses.field(default_factory=list)
    digest: bytes = b""

    def refuse(self, number: int, error: InvalidDocument) -> None:
        """Note a line that cannot be taken."""
        self.refused += 1
        if len(self.reports) < REPORTED:
            self.reports.append({"line": number, "error": error.detail, "hint": error.hint})


async def read_batch(
    chunks: AsyncIterator[bytes], *, settings: Settings, now_ms: int, atomic: bool
) -> Batch:
    """Read a whole batch.

    Raises:
        TooLarge: the body or its number of lines is over the limit; it names the line reached.
    """
    batch = Batch()
    splitter = LineSplitter(line_bytes=settings.line_bytes)
    digest = hashlib.sha256(b"atomic\n" if atomic else b"partial\n")
    try:
        async for chunk in chunks:
            digest.update(chunk)
            for line in splitter.feed(chunk):
                _take(batch, line, settings, now_ms)
    except TooLarge as error:
        raise TooLarge(
            f"{error.detail}; line {splitter.number} was reached and nothing was kept",
            limit=error.limit,
            hint="Send the lines in several batches.",
        ) from None
    for line in splitter.end():
        _take(batch, line, settings, now_ms)
    batch.digest = digest.digest()
    return batch


def _take(batch: Batch, line: Line, settings: Settings, now_ms: int) -> None:
    if line.number > settings.batch_lines:
        raise TooLarge(f"a batch has at most {settings.batch_lines} lines", limit="batch_lines")
    try:
        if line.raw is None:
            raise InvalidDocument(
                f"the line is longer than {settings.line_bytes} bytes",
                hint="Shorten its texts, or send them as several documents.",
            )
        if line.raw.strip():
            operation = parse_line(line.raw, number=line.number, now_ms=now_ms, limits=settings)
            batch.operations.append(operation)
    except InvalidDocument as error:
        batch.refuse(line.number, error)
