"""The piece of a text that shows why it was found.

Places where a term stands are found by plain search on a case-folded copy, between borders of
tokens or of their parts, and the best window over them is chosen: a long text costs little. For
ASCII, and for pairs of a spaceless script, that is exact; a window with anything that folds to
something else is tokenized. Where the copy cannot be aligned with the text or shows nothing
(diacritics, full-width forms), the head of the text is tokenized instead.
"""

from __future__ import annotations

import bisect
import heapq
import itertools
import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from service.text.folding import REGIONAL, SPACELESS, continues, kinds_of, normalise
from service.text.spans import pieces, spans

SCAN_CHARS: Final = 16_000
FAR_SCAN_CHARS: Final = 200_000
"""How far into a text matches are looked for, and how far when nothing is found so near."""

FOLDED_CHARS: Final = 2_048
TOKENIZED_CHARS: Final = 512
"""How far into a text the slow ways look, when plain search shows nothing."""

MAX_TERMS: Final = 24
"""Terms looked for; the longest ones where there are more."""

MAX_PLACES: Final = 8
"""Places of one term that are looked at; rarer terms decide anyway."""

TRIED_WINDOWS: Final = 3
"""Windows that are tokenized before the best of them is taken."""

SLACK_CHARS: Final = 24
"""How far a cut moves to fall between words."""

Place = tuple[int, int, str]
"""(start, end, term)"""

_SPACES: Final = re.compile(r"\s+")
_FOLDED: Final = re.compile(
    "[^\x00-\x7f\u2010-\u2027\u3001-\u3029\u3041-\u3096\u309d\u309e\u30a1-\u30fa\u30fc-\u30fe"
    "\u4e00-\u9fff\uac00-\ud7a3\uff01\uff08\uff09\uff0c\uff1a\uff1b\uff1f]"
)
"""What may fold to something else: all but ASCII, kana, Han, Hangul and their punctuation."""
_SOMETHING: Final = re.compile(r"\S")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A window of a text.

    Attributes:
        text: the window, white space collapsed to single spaces.
        marks: what matches, as (start, end) offsets into `text`: sorted, apart, never empty.
        start: offset in the source at which the window begins.
        cut_head: whether the source goes on before it.
        cut_tail: whether the source goes on after it.
    """

    text: str
    marks: tuple[tuple[int, int], ...] = ()
    start: int = 0
    cut_head: bool = False
    cut_tail: bool = False


def snippet(text: str, terms: Collection[str], *, width_chars: int = 160) -> Snippet:
    """Cut the window that shows most of the terms.

    Args:
        text: any text; looked at for `FAR_SCAN_CHARS` characters.
        terms: tokens of `service.text.tokenize`, of any stream.
        width_chars: longest window, at least 1.

    Returns:
        The window with the most different terms, then the most matches, then the earliest, its
        matches in the middle; the head of the text, without marks, if there is none.
    """
    wanted = frozenset(sorted(filter(None, terms), key=len, reverse=True)[:MAX_TERMS])
    width = max(1, width_chars)
    best: list[Place] = []
    window = _head(text, width)
    places = _places(text, wanted)
    for promised, first, last in _windows(places, width):
        tried = _around(text, first, last, width)
        found = [place for place in places if tried[0] <= place[0] and place[1] <= tried[1]]
        if _FOLDED.search(text, *tried) or not all(map(_is_sure, found)):
            found = _matches(text, wanted, *tried)
        if _terms(found) > _terms(best):
            best, window = found, tried
        if _terms(best) >= promised:  # the others promise no more
            break
    return _collapse(text, *window, _merged(best))


def _terms(places: Iterable[Place]) -> int:
    return len({term for _, _, term in places})


# --- where terms may stand


def _places(text: str, wanted: frozenset[str]) -> list[Place]:
    """Where the terms may stand, in order of place."""
    places = _search(text[:SCAN_CHARS], wanted)
    if not places and len(text) > SCAN_CHARS:
        places = _search(text[:FAR_SCAN_CHARS], wanted)
    if not places and wanted and not text.isascii():
        head = text[:FOLDED_CHARS]
        folded = normalise(head)
        if len(folded) == len(head):
            places = _search(folded, wanted) if folded != head else []
        else:
            places = list(_matches(text, wanted, 0, min(len(text), TOKENIZED_CHARS)))
    return sorted(places)


def _search(text: str, wanted: frozenset[str]) -> list[Place]:
    folded = text.lower()
    if len(folded) != len(text):
        folded = text.replace("İ", "i").lower()
    places = []
    for term in wanted:
        at = folded.find(term)
        seen = 0
        while at >= 0 and seen < MAX_PLACES:
            end = at + len(term)
            if _is_border(text, at) and _is_border(text, end):
                places.append((at, end, term))
                seen += 1
            at = folded.find(term, end)
    return places


def _is_border(text: str, at: int) -> bool:
    """Whether a token or a part of one may begin or end at `at`."""
    if at == 0 or at == len(text):
        return True
    before, after = text[at - 1], text[at]
    if not (before.isascii() and after.isascii() and before.isalnum() and after.isalnum()):
        return True
    return before.isdigit() != after.isdigit() or after.isupper() or before.isupper()


def _is_sure(place: Place) -> bool:
    """Whether what plain search finds in a window that nothing folds is a token.

    A longer run of a spaceless script is one only where it stands alone.
    """
    start, end, term = place
    return term.isascii() or end - start <= 2


def _windows(places: list[Place], width: int) -> Iterator[tuple[int, int, int]]:
    """The most promising stretches as (terms, start, end), best first, clear of each other."""
    counts: dict[str, int] = {}
    stretches: list[tuple[int, int, int, int]] = []
    left = 0
    for right, (_, end, term) in enumerate(places):
        counts[term] = counts.get(term, 0) + 1
        while left <= right and end - places[left][0] > width:
            gone = places[left][2]
            counts[gone] -= 1
            if not counts[gone]:
                del counts[gone]
            left += 1
        if left <= right:
            stretches.append((-len(counts), left - right, places[left][0], end))
    taken: list[int] = []
    for terms, _, start, end in heapq.nsmallest(len(stretches), stretches):
        if all(abs(start - other) > width for other in taken):
            yield -terms, start, end
            taken.append(start)
        if len(taken) == TRIED_WINDOWS:
            return


def _matches(text: str, wanted: frozenset[str], start: int, end: int) -> list[Place]:
    """The terms that do stand between two offsets, by tokenizing with some text around."""
    low = _back_to_space(text, start)
    high = _on_to_space(text, end)
    single = {term for term in wanted if len(term) == 1 and kinds_of(term)[0] == SPACELESS}
    found = []
    for offset, piece in pieces(text[low:high]):
        for span in piece:
            if span.token not in wanted and not single:
                continue
            first, last = low + offset + span.start, low + offset + span.end
            if span.token in wanted and _holds(text[first:last], span.token):
                found.append((first, last, span.token))
            elif single and span.stream == "sub" and len(span.token) == last - first == 2:
                for at, char in enumerate(span.token):  # one character inside a run
                    if char in single:
                        found.append((first + at, first + at + 1, char))
    return [place for place in found if start <= place[0] and place[1] <= end]


def _holds(piece: str, token: str) -> bool:
    """Whether a piece shown alone is that token; part of a character (`ẞ`, `½`) may not be."""
    return piece.isascii() or any(span.token == token for span in spans(piece))


# --- where to cut


def _head(text: str, width: int) -> tuple[int, int]:
    start = len(text) - len(text.lstrip()) if text[:1].isspace() else 0
    return start, _cut_before(text, start, min(len(text), start + width))


def _around(text: str, first: int, last: int, width: int) -> tuple[int, int]:
    """A window of at most `width` characters with `first` to `last` in its middle."""
    start = first - (width - (last - first)) // 2
    start = max(0, min(start, len(text) - width))
    end = min(len(text), start + width)
    return _cut_after(text, start, first), _cut_before(text, last, end)


def _cut_after(text: str, at: int, limit: int) -> int:
    """The first good place for a window to begin at or after `at`, not after `limit`."""
    if at > 0 and _splits_word(text, at):
        space = _SPACES.search(text, at, min(limit, at + SLACK_CHARS))
        at = space.end() if space else at
    while at < limit and _splits_character(text, at):
        at += 1
    return at


def _cut_before(text: str, limit: int, at: int) -> int:
    """The last good place for a window to end at or before `at`, not before `limit`."""
    if at < len(text) and _splits_word(text, at):
        low = max(limit, at - SLACK_CHARS)
        spaces = list(_SPACES.finditer(text, low, at))
        at = spaces[-1].start() if spaces and spaces[-1].start() > low else at
    while at > limit and _splits_character(text, at):
        at -= 1
    return at


def _splits_word(text: str, at: int) -> bool:
    around = text[at - 1 : at + 1]
    return not any(c.isspace() or SPACELESS in kinds_of(normalise(c)) for c in around)


def _splits_character(text: str, at: int) -> bool:
    """Whether a cut would separate what is seen as one character."""
    if not 0 < at < len(text):
        return False
    if continues(text[at]) or text[at - 1] == "\u200d":
        return True
    flags = 0
    while flags < at and flags < SLACK_CHARS and kinds_of(text[at - 1 - flags])[0] == REGIONAL:
        flags += 1
    return flags % 2 == 1 and kinds_of(text[at])[0] == REGIONAL


def _back_to_space(text: str, at: int) -> int:
    low = max(0, at - SLACK_CHARS)
    gap = max(text.rfind(" ", low, at), text.rfind("\n", low, at))
    return gap + 1 if gap >= 0 else low


def _on_to_space(text: str, at: int) -> int:
    gap = _SPACES.search(text, at, at + SLACK_CHARS)
    return gap.start() if gap else min(len(text), at + SLACK_CHARS)


# --- what is shown


def _merged(places: Iterable[Place]) -> list[tuple[int, int]]:
    """Sorted marks, those that touch made one."""
    marks: list[tuple[int, int]] = []
    for start, end, _ in sorted(places):
        if marks and start <= marks[-1][1]:
            marks[-1] = (marks[-1][0], max(end, marks[-1][1]))
        else:
            marks.append((start, end))
    return marks


def _collapse(text: str, start: int, end: int, marks: list[tuple[int, int]]) -> Snippet:
    """Collapse white space and move the marks along."""
    window = text[start:end]
    start += len(window) - len(window.lstrip())
    window = text[start:end].rstrip()
    shown = " ".join(window.split())
    if shown == window:
        moved = [(first - start, last - start) for first, last in marks]
    else:
        moved = _moved(window, start, marks)
    return Snippet(
        text=shown,
        marks=tuple(moved),
        start=start,
        cut_head=_SOMETHING.search(text, 0, start) is not None,
        cut_tail=_SOMETHING.search(text, end) is not None,
    )


def _moved(window: str, start: int, marks: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Offsets into a window that begins at `start`, its white space collapsed."""
    gaps = [(gap.end(), gap.end() - gap.start() - 1) for gap in _SPACES.finditer(window)]
    ends = [after for after, _ in gaps]
    removed = [0, *itertools.accumulate(lost for _, lost in gaps)]

    def moved(offset: int) -> int:
        return offset - start - removed[bisect.bisect_right(ends, offset - start)]

    return [(moved(first), moved(last)) for first, last in marks]
