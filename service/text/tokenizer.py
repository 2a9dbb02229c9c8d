"""The tokenizer: one function for documents and for queries.

How it stays fast: a text is scanned once as bytes by a small table of kinds. Plain words (`word`,
`Word`, `2041`) need nothing but lower case, so whole stretches of them are copied at once. Only
chunks with inner structure (camelCase, joiners, digits among letters, anything beyond ASCII) are
looked at character by character, and what came out is remembered, for vocabulary repeats.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.text.folding import (
    ASCII_KINDS,
    JOINERS,
    SIGNS,
    STEADINESS,
    STEADY_RUN,
    STEADY_SEPARATOR,
    UNSTEADY,
    WIDE_PIECE,
    fold_case,
    kinds_of,
    normalise,
)
from service.text.scan import BIGRAMS, ORIG, SUB, TOKEN_CHARS, scan
from service.text.streams import Streams

if TYPE_CHECKING:
    from mypy_extensions import i64

TOKENIZER_VERSION: Final = 1
"""Grows whenever any text may give other tokens; an index is re-tokenized then."""

MEMO_CHUNKS: Final = 32_768
"""Chunks whose tokens are remembered; the memory is emptied when full."""

MEMO_CHUNK_BYTES: Final = 64
"""Longest chunk that is remembered: the memory stays under about 40 MB whatever comes in."""

Columns = tuple[bytes, bytes, bytes]
"""The three streams of a chunk, each joined by spaces, in UTF-8."""

# What a byte says about the chunk it stands in; the union of a chunk's flags tells plain words from
# words with structure.
_LOWER: Final = 1
_DIGIT: Final = 2
_CAPITAL: Final = 4
_INNER_UPPER: Final = 8
_JOINER: Final = 16
_SIGN: Final = 32
_JOINER_OR_SIGN: Final = 48
_ODD_JOINER: Final = 64
_WIDE: Final = 128
_WORD: Final = _LOWER | _DIGIT | _CAPITAL | _INNER_UPPER | _WIDE
_PLAIN: Final = bytes(flags in (0, 1, 2, 4, 5, 12) for flags in range(256))
"""Whether a chunk of these flags is one token as it stands: `word`, `2041`, `I`, `Word`, `HTTP`."""
_JOINED: Final = bytes(flags in (17, 18, 21) for flags in range(256))
"""Whether it is a token whose parts are what stands between its joiners: `a-b`, `1.2`, `A_b`."""


def _flag(code: int) -> int:
    char = chr(code)
    if code >= 128:
        return _WIDE
    if not char.isalnum():
        return _JOINER if char in JOINERS else _SIGN if char in SIGNS else 0
    return _DIGIT if char.isdigit() else _LOWER if char.islower() else _CAPITAL


_FLAGS: Final = bytes(_flag(code) for code in range(256))
_FOLDED: Final = bytes(
    code if code >= 128 or _flag(code) else 32 for code in bytes(range(256)).lower()
)
_JOINERS_TO_SPACES: Final = bytes.maketrans(b"-_.", b"   ")
_memo: Final[dict[bytes, Columns]] = {}


def tokenize(text: str) -> Streams:
    """The token streams of a text. Time and memory are linear in its length; nothing raises."""
    orig, sub, edge = _streams(text)
    return Streams(orig=orig.decode().split(), sub=sub.decode().split(), edge=edge.decode().split())


def index_columns(text: str) -> tuple[str, str]:
    """The streams as two columns: `orig`, and `sub` followed by `edge`.

    Tokens are separated by one or more spaces; `.split()` gives them back.
    """
    orig, sub, edge = _streams(text)
    return orig.decode(), (b"%b %b" % (sub, edge) if sub and edge else sub or edge).decode()


def _streams(text: str) -> Columns:
    raw = text.encode("utf-8", "replace")
    flags = raw.translate(_FLAGS) + b"\0"  # a separator ends the last chunk too
    folded = raw.translate(_FOLDED)
    orig: list[bytes] = []
    sub: list[bytes] = []
    edge: list[bytes] = []
    size: i64 = len(raw)
    start: i64 = 0  # of the chunk that `at` is in
    done: i64 = 0  # up to here everything has been handed out
    sign: i64 = 0  # the first joiner or sign of the chunk
    seen: i64 = 0
    for at in range(size + 1):
        flag: i64 = flags[at]
        if flag == _LOWER:
            seen |= _LOWER
        elif flag == 0:
            if seen == 0:
                start = at + 1
                continue
            short = at - start <= TOKEN_CHARS
            if short and _PLAIN[seen]:
                pass
            elif short and _JOINED[seen] and flags[at - 1] < _JOINER:
                sub.append(folded[start:at].translate(_JOINERS_TO_SPACES))
            else:
                bare = seen & _WORD
                if bare == 0:  # a bullet, a rule
                    orig.append(folded[done:start])
                elif short and _PLAIN[bare] and sign == at - 1 and sign > start + 1:
                    orig.append(folded[done:sign])  # the end of a sentence; `C#` is a name
                else:
                    if start > done + 1:
                        orig.append(folded[done:start])
                    columns = _columns(raw[start:at])
                    if columns[0]:
                        orig.append(columns[0])
                    if columns[1]:
                        sub.append(columns[1])
                    if columns[2]:
                        edge.append(columns[2])
                done = at
            seen = 0
            start = at + 1
        elif flag == _CAPITAL:
            seen |= _CAPITAL if at == start else _INNER_UPPER
        elif flag & _JOINER_OR_SIGN:
            if not seen & _JOINER_OR_SIGN:
                sign = at
            if at == start or flags[at - 1] & _JOINER_OR_SIGN:
                seen |= _ODD_JOINER
            seen |= flag
        else:
            seen |= flag
    if size > done:
        orig.append(folded[done:])
    return b" ".join(orig), b" ".join(sub), b" ".join(edge)


def _columns(chunk: bytes) -> Columns:
    """The tokens of a chunk, which holds no ASCII separator."""
    known = _memo.get(chunk)
    if known is not None:
        return known
    if chunk.isascii():
        made: Columns | None = _cut_ascii(chunk)
    else:
        made = _cut_steady(chunk)
    if made is None:
        made = _cut_wide(chunk.decode())
    if len(chunk) <= MEMO_CHUNK_BYTES:
        if len(_memo) >= MEMO_CHUNKS:
            _memo.clear()
        _memo[chunk] = made
    return made


def _cut_ascii(chunk: bytes) -> Columns:
    folded = chunk.lower()
    orig: list[bytes] = []
    sub: list[bytes] = []
    edge: list[bytes] = []
    cuts = scan(chunk, chunk.translate(ASCII_KINDS))
    for at in range(0, len(cuts), 3):
        token = folded[cuts[at + 1] : cuts[at + 2]]
        if cuts[at] == ORIG:
            orig.append(token)
        elif cuts[at] == SUB:
            sub.append(token)
        else:
            edge.append(token.replace(b"'", b""))
    return b" ".join(orig), b" ".join(sub), b" ".join(edge)


def _cut_steady(chunk: bytes) -> Columns | None:
    """What `_cut_wide` gives, in one pass over the UTF-8; None for text that needs normalising."""
    orig: list[bytes] = []
    sub: list[bytes] = []
    edge: list[bytes] = []
    size: i64 = len(chunk)
    at: i64 = 0
    while at < size:
        start = at
        while at < size and chunk[at] < 0x80:
            at += 1
        if at > start:
            columns = _columns(chunk[start:at])
            if columns[0]:
                orig.append(columns[0])
            if columns[1]:
                sub.append(columns[1])
            if columns[2]:
                edge.append(columns[2])
        start = at
        steady: i64 = STEADY_RUN
        while at < size and chunk[at] >= 0x80:
            steady = _steadiness_at(chunk, at)
            if steady != STEADY_RUN:
                break
            at += 3
        if at > start:
            _append_run(chunk, start, at, orig, sub, edge)
        if steady == UNSTEADY:
            return None
        if steady == STEADY_SEPARATOR:
            at += 2 if chunk[at] < 0xE0 else 3
    return b" ".join(orig), b" ".join(sub), b" ".join(edge)


def _steadiness_at(chunk: bytes, at: i64) -> i64:
    """`STEADINESS` of the character whose UTF-8 begins at `at`."""
    lead: i64 = chunk[at]
    if lead < 0xE0:
        return STEADINESS[(lead & 0x1F) << 6 | (chunk[at + 1] & 0x3F)]
    if lead < 0xF0:
        return STEADINESS[
            (lead & 0x0F) << 12 | (chunk[at + 1] & 0x3F) << 6 | (chunk[at + 2] & 0x3F)
        ]
    return UNSTEADY


def _append_run(
    chunk: bytes, start: i64, end: i64, orig: list[bytes], sub: list[bytes], edge: list[bytes]
) -> None:
    """A run of spaceless characters, three bytes each."""
    at = start
    while end - at > 3 * TOKEN_CHARS:
        orig.append(chunk[at : at + 3 * TOKEN_CHARS])
        at += 3 * TOKEN_CHARS
    orig.append(chunk[at:end])
    if end - start == 3:
        sub.append(chunk[start:end])
        return
    at = start
    while at < end - 3:
        sub.append(chunk[at : at + 6])
        at += 3
    edge.append(chunk[end - 3 : end])


def _cut_wide(chunk: str) -> Columns:
    orig: list[str] = []
    sub: list[str] = []
    edge: list[str] = []
    for piece in WIDE_PIECE.findall(chunk):
        text = normalise(piece)
        cuts = scan(text.encode("ascii", "replace"), kinds_of(text))
        for at in range(0, len(cuts), 3):
            what, start, end = cuts[at], cuts[at + 1], cuts[at + 2]
            if what == BIGRAMS:
                sub.extend([text[pair : pair + 2] for pair in range(start, end - 1)])
                continue
            token = fold_case(text[start:end])
            if what == ORIG:
                orig.append(token)
            elif what == SUB:
                sub.append(token)
            else:
                edge.append(token.replace("'", ""))
    return " ".join(orig).encode(), " ".join(sub).encode(), " ".join(edge).encode()
