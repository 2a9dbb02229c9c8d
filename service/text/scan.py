"""From kinds of characters to token boundaries: one pass over one piece of normalised text.

Written for mypyc as well as for the interpreter: plain loops over bytes, no closures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.text.folding import (
    APOSTROPHE,
    AT,
    DIGIT,
    DOT,
    EMOJI,
    HASH,
    HYPHEN,
    LOWER,
    MARK,
    PLUS,
    REGIONAL,
    SPACELESS,
    UNDERSCORE,
    UPPER,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

TOKEN_CHARS: Final = 256
"""Longest token. A longer word (a base64 blob, a key) is cut into tokens of this length from its
start, so it still finds itself; only its separators split it further."""

# What a cut is; the streams of `service.text.streams` and one abbreviation.
ORIG: Final = 0
SUB: Final = 1
EDGE: Final = 2
BIGRAMS: Final = 3
"""All overlapping pairs of characters of the cut, in `sub`."""

_PLUS_NAMES: Final = b"cCgG"
_HASH_NAMES: Final = b"cCfFjJqQ"
_SMALL_S: Final = 0x73
_HEX_PARTS: Final = 3
"""Parts of letters and of digits that make a hash of a hexadecimal word."""


def scan(letters: bytes, kinds: bytes) -> list[int]:
    """Cut one piece of normalised text into tokens.

    Args:
        letters: its characters, one byte each, case kept; any byte for those beyond ASCII.
        kinds: the kind of each character.

    Returns:
        Cuts in the order of their streams, three numbers each: what, start, end (in characters).
        Flat, for a tuple a token costs more than everything else here.
    """
    cuts: list[int] = []
    size: i64 = len(kinds)
    at: i64 = 0
    while at < size:
        kind: i64 = kinds[at]
        if 0 < kind < SPACELESS:
            if kind == MARK:  # a mark without a base
                at += 1
            else:
                at = _word(letters, kinds, at, size, cuts)
        elif kind == SPACELESS:
            at = _run(kinds, at, size, cuts)
        elif kind == EMOJI:
            _add(cuts, ORIG, at, at + 1)
            at += 1
        elif kind == REGIONAL:
            start = at
            at += 1
            if at < size and kinds[at] == REGIONAL:
                at += 1
            _add(cuts, ORIG, start, at)
        else:
            at += 1
    return cuts


def _add(cuts: list[int], what: int, start: i64, end: i64) -> None:
    cuts.append(what)
    cuts.append(start)
    cuts.append(end)


def _append_whole(start: i64, end: i64, cuts: list[int]) -> None:
    while end - start > TOKEN_CHARS:
        _add(cuts, ORIG, start, start + TOKEN_CHARS)
        start += TOKEN_CHARS
    _add(cuts, ORIG, start, end)


def _run(kinds: bytes, start: i64, size: i64, cuts: list[int]) -> i64:
    end = start + 1
    while end < size and kinds[end] == SPACELESS:
        end += 1
    _append_whole(start, end, cuts)
    if end - start == 1:
        _add(cuts, SUB, start, end)
    else:
        _add(cuts, BIGRAMS, start, end)
        _add(cuts, EDGE, end - 1, end)
    return end


def _word(letters: bytes, kinds: bytes, start: i64, size: i64, cuts: list[int]) -> i64:
    """A word with its inner joiners, suffix and sign; returns where the next token may begin."""
    parts: list[int] = []
    at = start
    while True:
        at = _segment(letters, kinds, start, at, size, parts)
        joined = _skip_joiner(kinds, at, size)
        if joined == at:
            break
        at = joined
    end = at
    if end - start > TOKEN_CHARS:
        _append_whole(start, end, cuts)
        _append_segments(kinds, start, end, cuts)
        return end
    suffix = _suffix_end(kinds, end, size)
    possessive = suffix == end + 2 and letters[end + 1] in b"sS"
    if suffix > end and not possessive:
        _add(cuts, ORIG, start, suffix)
        _add(cuts, EDGE, start, suffix)
        _add(cuts, EDGE, start, end)
        return suffix
    sign = _sign_end(kinds, end, size)
    if (
        end - start == 1
        and sign > end
        and letters[start] in (_PLUS_NAMES if kinds[end] == PLUS else _HASH_NAMES)
    ):
        _add(cuts, ORIG, start, sign)
        return sign
    lead = _lead(kinds, start)
    if lead < start and kinds[lead] == DOT and letters[start:end].lower() == b"net":
        _add(cuts, ORIG, lead, end)
        _add(cuts, EDGE, start, end)
        return end
    _add(cuts, ORIG, start, end)
    if len(parts) > 3:
        cuts.extend(parts)
    if lead < start:
        _add(cuts, EDGE, lead, end)
    if possessive:
        _add(cuts, EDGE, start, suffix)
        return suffix
    if sign > end and kinds[end] == PLUS:
        _add(cuts, EDGE, start, sign)
        return sign
    if parts[2] < end and letters[start] in b"vV" and kinds[start + 1] == DIGIT:
        _add(cuts, EDGE, start + 1, end)  # 1.2.3 of v1.2.3
    return end


def _segment(
    letters: bytes, kinds: bytes, word: i64, start: i64, size: i64, parts: list[int]
) -> i64:
    """Letters and digits up to the next joiner; appends its parts as `SUB` cuts.

    Parts are of no use in a word beyond `TOKEN_CHARS` and not collected there.
    """
    at = start
    part = start
    letter = start  # the last one that is no mark
    kept: i64 = len(parts)
    previous: i64 = 0
    while at < size:
        kind: i64 = kinds[at]
        if kind == 0 or kind > MARK:
            break
        if kind == MARK:  # belongs to the letter before it
            at += 1
            continue
        if kind != previous and previous != 0:
            border: i64 = at
            if kind == LOWER and previous == UPPER:
                border = part  # Capitalised: no border, unless an acronym stands before it
                if letter > part and not _is_plural(letters, kinds, at, size):
                    border = letter
            if border > part:
                if at - word <= TOKEN_CHARS:
                    _add(parts, SUB, part, border)
                part = border
        previous = kind
        letter = at
        at += 1
    if at - word <= TOKEN_CHARS:
        _add(parts, SUB, part, at)
        if len(parts) - kept >= 3 * _HEX_PARTS and not letters[start:at].strip(
            b"0123456789abcdefABCDEF"
        ):
            del parts[kept:]  # a hash, a UUID: its letters and digits are one thing
            _add(parts, SUB, start, at)
    return at


def _is_plural(letters: bytes, kinds: bytes, at: i64, size: i64) -> bool:
    """Whether the lower-case letter at `at` is the s of `APIs`."""
    return letters[at] == _SMALL_S and (at + 1 >= size or kinds[at + 1] != LOWER)


def _skip_joiner(kinds: bytes, at: i64, size: i64) -> i64:
    """Past `-`, `.` or underscores (with at most one of the former) that a word follows."""
    end = at
    marks: i64 = 0
    while end < size and UNDERSCORE <= kinds[end] <= DOT:
        if kinds[end] != UNDERSCORE:
            marks += 1
            if marks > 1:
                return at
        end += 1
    return end if end < size and 0 < kinds[end] < MARK else at


def _suffix_end(kinds: bytes, at: i64, size: i64) -> i64:
    """Past `'s`, `'t`, `'ll` after a word; `at` where there is none."""
    if at + 1 >= size or kinds[at] != APOSTROPHE or kinds[at - 1] == DIGIT:
        return at
    end = at + 1
    while end < size and 0 < kinds[end] <= MARK:
        if end - at > 2 or kinds[end] == DIGIT:
            return at
        end += 1
    return end if end > at + 1 else at


def _sign_end(kinds: bytes, at: i64, size: i64) -> i64:
    """Past `++` or `#` after a word; `at` where there is none."""
    if at >= size:
        return at
    if kinds[at] == HASH:
        return at + 1
    if kinds[at] == PLUS and at + 1 < size and kinds[at + 1] == PLUS:
        return at + 2
    return at


def _lead(kinds: bytes, start: i64) -> i64:
    """Where the sign of `-rf`, `--force`, `@acme`, `#17089`, `.env` before a word begins."""
    if start == 0:
        return start
    sign: i64 = kinds[start - 1]
    lead = start - 1
    if sign == HASH and (kinds[start] == DIGIT or _opens(kinds, lead)):
        return lead
    if sign == AT and _opens(kinds, lead):
        return lead
    if kinds[start] != DIGIT and HYPHEN <= sign <= DOT:
        if sign == HYPHEN and lead > 0 and kinds[lead - 1] == HYPHEN:
            lead -= 1
        if _opens(kinds, lead):
            return lead
    return start


def _opens(kinds: bytes, at: i64) -> bool:
    """Whether a token may begin at `at`, whatever it is: nothing that joins stands before it."""
    return at == 0 or kinds[at - 1] == 0 or SPACELESS <= kinds[at - 1] <= REGIONAL


def _append_segments(kinds: bytes, start: i64, end: i64, cuts: list[int]) -> None:
    """The parts between separators of an over-long word, if it has any separator."""
    at = start
    segment = start
    while at <= end:
        if at == end or kinds[at] > MARK:
            if segment == start and at == end:
                return
            while at - segment > TOKEN_CHARS:
                _add(cuts, EDGE, segment, segment + TOKEN_CHARS)
                segment += TOKEN_CHARS
            if at > segment:
                _add(cuts, EDGE, segment, at)
            segment = at + 1
        at += 1
