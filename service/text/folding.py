"""Characters: how raw text is brought to one form, and what kind each character is.

The tokenizer's only knowledge of Unicode. Terms are those of UAX #15 (NFC, NFKC, combining class)
and UAX #44 (general categories).
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from typing import Final

# --- kinds of characters; one byte each in a kind string
SEPARATOR: Final = 0
LOWER: Final = 1
DIGIT: Final = 2
CASELESS: Final = 3
"""A letter without case: Arabic, Devanagari, Hebrew, ..."""
UPPER: Final = 4
MARK: Final = 5
"""A combining mark that belongs to the word: Devanagari vowel signs, for instance."""
SPACELESS: Final = 6
"""Han, kana, Bopomofo, Hangul, Thai, Lao, Khmer, Myanmar: runs that are cut into bigrams."""
EMOJI: Final = 7
REGIONAL: Final = 8
"""A regional indicator: two of them are a flag."""
UNDERSCORE: Final = 9
HYPHEN: Final = 10
DOT: Final = 11
APOSTROPHE: Final = 12
PLUS: Final = 13
HASH: Final = 14
AT: Final = 15

JOINERS: Final = {"_": UNDERSCORE, "-": HYPHEN, ".": DOT}
SIGNS: Final = {"'": APOSTROPHE, "+": PLUS, "#": HASH, "@": AT}
TOKEN_PUNCTUATION: Final = "-_.'+#@"  # noqa: S105  no secret
"""Every ASCII character besides letters and digits that a token may hold."""

MAX_MARKS: Final = 30
"""Longest sequence of combining marks that is kept, as in the Stream-Safe Text Format of UAX #15.

CPython orders marks by insertion, so an endless sequence would cost quadratic time."""

MAX_KNOWN_KINDS: Final = 65_536
"""Characters whose kind is remembered; the memory is emptied when full."""

_CJK_RANGES: Final = (
    (0x1100, 0x11FF),  # conjoining jamo, also what compatibility jamo become
    (0x2E80, 0x2FDF),  # radicals
    (0x3005, 0x3007),  # 々 〆 〇
    (0x3021, 0x3029),
    (0x3031, 0x3035),
    (0x3038, 0x303C),  # with 〻 〼
    (0x3041, 0x309A),  # hiragana, voicing marks
    (0x309D, 0x309F),
    (0x30A1, 0x30FA),  # katakana without ・
    (0x30FC, 0x30FF),  # ー ヽ ヾ
    (0x3105, 0x31BF),
    (0x31F0, 0x31FF),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xA960, 0xA97F),
    (0xAC00, 0xD7FB),
    (0xF900, 0xFAFF),
    (0x1AFF0, 0x1B16F),  # kana beyond the BMP
    (0x20000, 0x3FFFD),  # Han extensions B and later
)
_THAI_LIKE_RANGES: Final = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1950, 0x19DF),  # Tai Le, New Tai Lue
    (0x1A20, 0x1AAF),  # Tai Tham
    (0xA9E0, 0xA9FF),
    (0xAA60, 0xAADF),  # Myanmar extended, Tai Viet
)
_EMOJI_RANGES: Final = (
    (0x231A, 0x231B),
    (0x23E9, 0x23FA),
    (0x2600, 0x27BF),
    (0x2B1B, 0x2B1C),
    (0x2B50, 0x2B55),
    (0x1F000, 0x1F1E5),
    (0x1F200, 0x1F3FA),
    (0x1F400, 0x1FAFF),
)
_CATEGORY_KINDS: Final = {"Lu": UPPER, "Lt": UPPER, "Ll": LOWER, "Lo": CASELESS, "Lm": CASELESS}

# Invisible: soft hyphen, grapheme joiner, zero-width and bidi controls, variation selectors, tags,
# skin tones, the Arabic tatweel.
_IGNORED: Final = re.compile(
    "[\u00ad\u034f\u061c\u0640\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\U0001f3fb-\U0001f3ff\U000e0000-\U000e0fff]+"
)
# Diacritics of alphabets: Latin, Greek and Cyrillic marks, Hebrew points, Arabic vowels and hamza,
# enclosing marks. Voicing marks of kana and vowel signs of Indic scripts are letters, not these.
_DIACRITICS: Final = re.compile(
    "[\u0300-\u036f\u0483-\u0489\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a"
    "\u064b-\u065f\u0670\u06d6-\u06dc\u06df-\u06e4\u06e7\u06e8\u06ea-\u06ed\u1ab0-\u1aff"
    "\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
# Characters that may change below although NFKC leaves them alone.
_FOLDABLE: Final = re.compile(
    f"{_IGNORED.pattern[:-2]}{_DIACRITICS.pattern[1:-2]}"
    "\u00c0-\u024f\u0370-\u052f\u0620-\u06d5\u1d00-\u1dbf\u1e00-\u1fff\u2010\u2019]"
)
_LETTERS: Final = str.maketrans(
    {"’": "'", "‐": "-", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ħ": "h"}
    | {"Ħ": "H", "ı": "i", "ŧ": "t", "Ŧ": "T", "ð": "d", "Ð": "D", "æ": "ae", "Æ": "Ae"}
    | {"œ": "oe", "Œ": "Oe", "þ": "th", "Þ": "Th", "ß": "ss", "ẞ": "SS"}
)

# fmt: off
_WIDE_SEPARATORS: Final = (
    (0x0080, 0x00A9),
    (0x00AB, 0x00AC),
    (0x00AE, 0x00B1),
    (0x00B4, 0x00B4),
    (0x00B6, 0x00B8),
    (0x00BB, 0x00BB),
    (0x00BF, 0x00BF),
    (0x00D7, 0x00D7),
    (0x00F7, 0x00F7),
    (0x2000, 0x200A),
    (0x2012, 0x2018),
    (0x201A, 0x2023),
    (0x2025, 0x2029),
    (0x202F, 0x203E),
    (0x2040, 0x205F),
    (0x20A0, 0x20CF),
    (0x2120, 0x2120),
    (0x2122, 0x2122),
    (0x2190, 0x2319),
    (0x231C, 0x23E8),
    (0x23FB, 0x245F),
    (0x2500, 0x25FF),
    (0x27C0, 0x2B1A),
    (0x2B1D, 0x2B4F),
    (0x2E00, 0x2E2E),
    (0x2E30, 0x2E7F),
    (0x3000, 0x3004),
    (0x3008, 0x3020),
    (0x3030, 0x3030),
    (0x303D, 0x303F),
    (0x309B, 0x309C),
    (0x30A0, 0x30A0),
    (0x30FB, 0x30FB),
    (0xE000, 0xF8FF),
    (0xFF01, 0xFF02),
    (0xFF04, 0xFF06),
    (0xFF08, 0xFF0A),
    (0xFF0C, 0xFF0C),
    (0xFF0F, 0xFF0F),
    (0xFF1A, 0xFF1F),
    (0xFF3B, 0xFF3E),
    (0xFF40, 0xFF40),
    (0xFF5B, 0xFF65),
    (0xFFFC, 0xFFFD),
)
# fmt: on
_STEADY_RUNS: Final = (
    (0x3005, 0x3007),
    (0x3041, 0x3096),
    (0x30A1, 0x30FA),
    (0x30FC, 0x30FE),
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xAC00, 0xD7A3),
)
UNSTEADY: Final = 0
STEADY_SEPARATOR: Final = 1
STEADY_RUN: Final = 2


def _steadiness() -> bytes:
    table = bytearray(0x10000)
    for ranges, value in ((_WIDE_SEPARATORS, STEADY_SEPARATOR), (_STEADY_RUNS, STEADY_RUN)):
        for low, high in ranges:
            table[low : high + 1] = bytes([value]) * (high + 1 - low)
    return bytes(table)


STEADINESS: Final = _steadiness()
"""For each code point of the BMP beyond ASCII: `STEADY_RUN` (of kind `SPACELESS`) and
`STEADY_SEPARATOR` where normalisation changes nothing and nothing composes with a neighbour, which
is true of nearly all CJK text; `UNSTEADY` for all that needs a closer look."""

WIDE_PIECE: Final = re.compile(
    "[^\\s" + "".join(f"\\u{low:04x}-\\u{high:04x}" for low, high in _WIDE_SEPARATORS) + "]+"
)
"""What stands between spaces and separators beyond ASCII. Each piece is normalised alone: none of
the characters between pieces composes with, or turns into, a part of a token."""


def normalise(piece: str) -> str:
    """Bring text to the one form in which it is compared; case is kept.

    NFKC, invisible characters dropped, diacritics and letters such as `ø` folded to their base,
    typographic apostrophe and hyphen made ASCII. `й` stays a letter of its own, as do voiced kana.
    """
    if piece.isascii():
        return piece
    if len(piece) > MAX_MARKS and _MAYBE_MARK.search(piece):
        piece = _cut_marks(piece)
    if _FOLDABLE.search(piece) is None:
        return piece if unicodedata.is_normalized("NFKC", piece) else _compose(piece)
    return _compose(_IGNORED.sub("", piece))


def _compose(piece: str) -> str:
    text = unicodedata.normalize("NFKC", piece)
    if _FOLDABLE.search(text) is None:
        return text
    text = unicodedata.normalize("NFD", _IGNORED.sub("", text))
    text = text.replace("и\u0306", "й").replace("И\u0306", "Й")
    return unicodedata.normalize("NFKC", _DIACRITICS.sub("", text).translate(_LETTERS))


_MAYBE_MARK: Final = re.compile(
    "[\u0300-\u1fff\u20d0-\u20ff\u2c00-\u2dff\u302a-\u302f\u3099\u309a\ua000-\uabff"
    "\ufb1e\ufe20-\ufe2f\U00010000-\U0001efff]"
)
"""What every combining mark is among, and no common CJK text, which need not be looked through."""


def _cut_marks(piece: str) -> str:
    """Leave no more than `MAX_MARKS` combining marks in a row."""
    kept: list[str] = []
    marks = 0
    for char in piece:
        marks = marks + 1 if unicodedata.combining(char) else 0
        if marks <= MAX_MARKS:
            kept.append(char)
    return "".join(kept)


class _Kinds(dict[int, int]):
    """Code point -> kind, filled as characters are met."""

    def __missing__(self, code: int) -> int:
        if len(self) >= MAX_KNOWN_KINDS:
            self.clear()
        kind = self[code] = _kind(code)
        return kind


def _within(code: int, ranges: tuple[tuple[int, int], ...]) -> bool:
    return any(low <= code <= high for low, high in ranges)


def _kind(code: int) -> int:
    char = chr(code)
    category = unicodedata.category(char)
    if code < 128 and not char.isalnum():
        return JOINERS.get(char, SIGNS.get(char, SEPARATOR))
    if 0x1F1E6 <= code <= 0x1F1FF:
        return REGIONAL
    if _within(code, _CJK_RANGES):
        return SPACELESS
    if _within(code, _EMOJI_RANGES):
        return EMOJI
    if category[0] == "N":
        return DIGIT
    if category[0] in "LM" and _within(code, _THAI_LIKE_RANGES):
        return SPACELESS
    if category[0] == "M":
        return MARK
    return _CATEGORY_KINDS.get(category, SEPARATOR)


_KNOWN: Final = _Kinds()
ASCII_KINDS: Final = bytes(_kind(code) if code < 128 else 0 for code in range(256))


def kinds_of(text: str) -> bytes:
    """The kind of each character of normalised text, one byte a character."""
    if text.isascii():
        return text.encode("ascii").translate(ASCII_KINDS)
    return text.translate(_KNOWN).encode("latin-1")


def fold_case(text: str) -> str:
    """Case-fold normalised text. Each character is folded alone, so slices fold alike."""
    return text.lower() if text.isascii() else text.casefold()


def normalise_with_origins(piece: str) -> tuple[str, list[int]]:
    """Normalise a piece and say where its characters came from.

    Returns:
        The text of `normalise`, and one number for each of its characters and one more: where in
        `piece` the group of characters that it was made of begins; the last is `len(piece)`.
        Equal neighbours share a group.
    """
    text = normalise(piece)
    if text == piece:
        return text, list(range(len(piece) + 1))
    starts = [at for at, char in enumerate(piece) if at == 0 or not continues(char)]
    starts.append(len(piece))
    made: list[str] = []
    origins: list[int] = []
    for start, end in itertools.pairwise(starts):
        made.append(normalise(piece[start:end]))
        origins += [start] * len(made[-1])
    if "".join(made) != text:  # composed across groups: the whole piece is one
        origins = [0] * len(text)
    origins.append(len(piece))
    return text, origins


def continues(char: str) -> bool:
    """Whether a character composes with what stands before it: marks, jamo, voicing marks."""
    return (
        unicodedata.category(char)[0] == "M"
        or char in "\uff9e\uff9f"
        or "\u1160" <= char <= "\u11ff"
        or "\ud7b0" <= char <= "\ud7fb"
        or _IGNORED.match(char) is not None
    )
