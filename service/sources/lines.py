"""Lines of files that other programs may be writing just now."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import orjson

from service.errors import SetupError

GZIP_MAGIC: Final = b"\x1f\x8b"


class BadLine(Exception):
    """A line that is no JSON object; its text says why."""


def open_lines(path: Path) -> IO[bytes]:
    """Open a file of lines, compressed by gzip or not.

    Raises:
        SetupError: it cannot be read.
    """
    try:
        file = path.open("rb")
    except OSError as error:
        raise SetupError(f"{path} cannot be read ({error.strerror})") from error
    if file.peek(2)[:2] == GZIP_MAGIC:
        return gzip.open(file, "rb")  # type: ignore[return-value]  # a GzipFile reads bytes
    return file


def numbered(file: IO[bytes], most_bytes: int) -> Iterator[tuple[int, bytes | None, bool]]:
    """Lines that are not blank: number from 1, bytes, whether the line has its end.

    A line over `most_bytes` is never held: None stands for it.
    """
    number = 0
    while piece := file.readline(most_bytes + 1):
        number += 1
        whole = piece.endswith(b"\n")
        if len(piece) > most_bytes and not whole:
            while piece and not piece.endswith(b"\n"):
                piece = file.readline(most_bytes)
            yield number, None, True
        elif piece.strip():
            yield number, piece, whole


def parse(line: bytes, *, whole: bool) -> dict[str, Any]:
    """A line as a JSON object.

    Raises:
        BadLine: it is not one.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError:
        value = _leniently(line, whole)
    if not isinstance(value, dict):
        raise BadLine("not a JSON object")
    return value


def _leniently(line: bytes, whole: bool) -> object:
    """Python's parser takes the lone surrogates that JavaScript writes for cut-off emoji."""
    try:
        return json.loads(line.decode())
    except UnicodeDecodeError:
        raise BadLine("not UTF-8" if whole else "half-written") from None
    except (ValueError, RecursionError):
        raise BadLine("not JSON" if whole else "half-written") from None
