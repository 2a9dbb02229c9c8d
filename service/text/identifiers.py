"""What looks like an identifier, and the one form in which identifiers are compared.

| shape | is one | is none |
| --- | --- | --- |
| key with a number | `CR-291543784`, `POL-358`, `CVE-2024-3094`, `BUG_1234` | `gpt-4`, `sha-256` |
| the same with a year | `OPS-2041` | `feb-2026`, `release-2025` |
| number behind `#` | `#17089`, `#635` | `#1`, `#general` |
| long number | `291543784` | `2001`, `20.04`, `20260131` |
| hexadecimal | `aafa79ac07f5`, a UUID | `defaced`, `beef` |
| letters and digits | `ABC12345`, `e3b0c4` | `utf8`, `sha256`, `h264`, `es2020`, `v1.2.3` |

The rules are ours; every row is pinned by a test.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import numpy as np

from service.text.folding import fold_case, normalise

MAX_IDENTIFIERS: Final = 256
"""Most identifiers taken from one text, as in `Settings.identifiers_count`."""

IDENTIFIER_CHARS: Final = 128
"""Longest identifier, a SHA-512 in hexadecimal; longer tokens are blobs."""

LONG_NUMBER_DIGITS: Final = 6
"""Fewest digits of a bare number that is an identifier."""

_OTHER: Final = 1
_DIGIT: Final = 2
_KINDS: Final = bytes(
    _DIGIT
    if chr(byte) in "0123456789"
    else _OTHER
    if chr(byte) in "#-_" or chr(byte).isalpha()
    else 0
    for byte in range(128)
) + bytes(128)
"""What a byte is to an identifier; beyond ASCII nothing is."""
_LONG_NUMBER: Final = bytes([_DIGIT]) * LONG_NUMBER_DIGITS
_TOKEN_BYTES: Final = bytes(byte for byte in range(128) if _KINDS[byte] and byte != ord("#"))
_REST: Final = re.compile(rb"[A-Za-z0-9_-]*")
_FULL_WIDTH: Final = re.compile(rb"\xef(?:\xbc[\x90-\xbf]|\xbd[\x80-\x9a])")  # U+FF10..5A
_NARROW: Final = {wide: wide - 0xFEE0 for wide in range(0xFF01, 0xFF5F)}
_KEY: Final = re.compile(r"(?P<name>[a-z][a-z0-9]{0,15})(?:[-_](?P<number>[0-9]+))+")
_KEY_INSIDE: Final = re.compile(r"(?<![a-z0-9])[a-z]{2,10}-[0-9]{3,}(?![a-z0-9])")
_UUID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_HEXADECIMAL: Final = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]{7,}")
_NUMBER: Final = re.compile(r"#[0-9]{2,}|[0-9]{6,}")
_CODE: Final = re.compile(r"(?=[^a-z]*[a-z])[a-z0-9]{6,40}")
_DAY: Final = re.compile(r"(?:19|20)[0-9]{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12][0-9]|3[01])")
_YEAR: Final = re.compile(r"(?:19|20)[0-9]{2}")
_WORD_AND_YEAR: Final = re.compile(r"[a-z]+(?:19|20)[0-9]{2}")
_MONTHS: Final = re.compile("jan|feb|mar|apr|may|june?|july?|aug|sept?|oct|nov|dec")
_ALGORITHMS: Final = re.compile("sha|utf|md|iso|crc|aes|rsa|cp|win|u?int|float|base")
_YEARLY_LETTERS: Final = 6
"""A name this long before a year is a word (`release-2025`), a shorter one a key (`OPS-2041`)."""


def fold_identifier(text: str) -> str:
    """The form in which identifiers are stored and compared.

    Width, case, diacritics and invisible characters do not count, nor does white space around it;
    inside, it counts as one space. Punctuation stays: `#6029` is not `6029`.
    """
    return " ".join(fold_case(normalise(text)).split())


def is_identifier(token: str) -> bool:
    """Whether a token has the shape of an identifier, not of a word, a year or a version."""
    folded = fold_identifier(token)
    return len(folded) <= IDENTIFIER_CHARS and _is_shaped(folded)


def identifiers_in(text: str, *, limit: int = MAX_IDENTIFIERS) -> list[str]:
    """The identifiers that a text mentions: folded, in order, each once, at most `limit`."""
    raw = text.encode("utf-8", "replace")
    if _FULL_WIDTH.search(raw):
        raw = text.translate(_NARROW).encode("utf-8", "replace")
    found: dict[str, None] = {}
    done = 0
    for place in _places(raw):
        if place < done:
            continue
        token, done = _token_around(raw, place, done)
        if token.isdigit() and len(token) < LONG_NUMBER_DIGITS:
            continue
        if len(token) <= IDENTIFIER_CHARS and _is_shaped(token):
            found[token] = None
        elif "-" in token:  # a branch: OPS-2041-fix-the-thing
            found |= dict.fromkeys(filter(_is_shaped, _KEY_INSIDE.findall(token)))
        if len(found) >= limit:
            break
    return list(found)[:limit]


def _places(raw: bytes) -> list[int]:
    """A place inside each word that may be an identifier, in order, some more than once.

    Every identifier has a digit beside a letter, `-`, `_` or `#`, or many digits. Few words do, so
    the text is searched for that all at once.
    """
    kinds = raw.translate(_KINDS)
    array = np.frombuffer(kinds, dtype=np.uint8)
    places: list[int] = np.flatnonzero((array[1:] | array[:-1]) == _OTHER | _DIGIT).tolist()
    number = kinds.find(_LONG_NUMBER)
    while number >= 0:
        places.append(number)
        number = kinds.find(_LONG_NUMBER, number + LONG_NUMBER_DIGITS)
    places.sort()
    return places


def _token_around(raw: bytes, place: int, done: int) -> tuple[str, int]:
    """The lower-cased word, with its `#`, that a place stands in, and where it ends."""
    place += raw[place] == ord("#")
    before = raw[max(done, place - IDENTIFIER_CHARS) : place]
    start = place - len(before) + len(before.rstrip(_TOKEN_BYTES))
    rest = _REST.match(raw, place)
    assert rest is not None, "matches the empty string too"
    token = raw[start : rest.end()].decode().strip("-_").lower()
    if start and raw[start - 1] == ord("#") and token.isdigit():
        token = "#" + token
    return token, rest.end()


@lru_cache(4096)
def _is_shaped(token: str) -> bool:
    if _NUMBER.fullmatch(token):
        return not _DAY.fullmatch(token)
    if key := _KEY.fullmatch(token):
        return _is_key(key["name"], token[len(key["name"]) + 1 :])
    if _UUID.fullmatch(token) or _HEXADECIMAL.fullmatch(token):
        return True
    if not _CODE.fullmatch(token) or _WORD_AND_YEAR.fullmatch(token):
        return False
    letters = token.rstrip("0123456789")
    return sum(map(str.isdigit, token)) >= 3 and _ALGORITHMS.fullmatch(letters) is None


def _is_key(name: str, number: str) -> bool:
    if sum(map(str.isdigit, number)) < 3 or _ALGORITHMS.fullmatch(name):
        return False
    return not (
        _YEAR.fullmatch(number) and (_MONTHS.fullmatch(name) or len(name) >= _YEARLY_LETTERS)
    )
