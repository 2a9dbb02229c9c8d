"""Which rows of a pool hold terms side by side.

Term sheets say which rows hold all of the terms, FTS5 or the rows' own texts in which order. A scan
of FTS5 walks the postings of every term, so it costs more in a larger index and may have to leave
out old rows; to cut a row's text again costs the same everywhere. Whichever costs less is done.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import apsw
import numpy as np
from numpy.typing import NDArray

from service.ranking import lanes
from service.ranking.sheet import Sheets
from service.ranking.terms import quote
from service.search.postings import Ids, Postings
from service.text import index_columns

#: Most rows that one scan for a phrase or a prefix returns.
SCAN_MOST = 4_000
#: What a scan costs: by itself, for each term, for each posting, and for each of the rarest term,
#: where positions are compared. Fitted to 3,000 phrases on 12,000 and 400,000 documents.
SCAN_US, SCAN_TERM_US, POSTING_US, MEETING_US = 36.0, 40.0, 0.012, 0.19
#: What reading costs: for each row, and for each term that its text is cut into.
ROW_US, TERM_US = 15.0, 0.2

Flags = NDArray[np.bool_]


class Phrases:
    """Phrases in the rows of one pool; a row's text is cut at most once."""

    def __init__(
        self, connection: apsw.Connection, ids: Ids, sheets: Sheets, postings: Postings
    ) -> None:
        """Of the rows `ids` (n,), in rising order, and their sheets."""
        self._connection = connection
        self._ids = ids
        self._sheets = sheets
        self._postings = postings
        self._terms = sheets.title_length + sheets.body_length
        self._cut: dict[int, str] = {}

    def held(self, phrase: Sequence[str], among: Flags | None = None) -> Flags:
        """Which rows hold the terms side by side, bool (n,); `among` narrows where to look."""
        held = np.ones(len(self._ids), dtype=np.bool_) if among is None else among.copy()
        if not held.any():
            return held
        self._sheets.look_up(phrase)
        for term in phrase:
            title, body = self._sheets.counts(term)
            held &= (title + body) > 0
        places = np.flatnonzero(held)
        if not len(places):
            return held
        if self._reading_us(places) <= self._scanning_us(phrase, int(self._ids[places[0]])):
            held[places] = self._read(phrase, places.tolist())
        else:
            found = self._postings.together(
                quote(phrase), phrase, SCAN_MOST, above=int(self._ids[places[0]]) - 1
            )
            held[places] = lanes.among(self._ids[places], found[::-1])
        return held

    # --- inside

    def _reading_us(self, places: NDArray[np.intp]) -> float:
        if self._cut:
            places = places[[place not in self._cut for place in places.tolist()]]
        return ROW_US * len(places) + TERM_US * float(self._terms[places].sum())

    def _scanning_us(self, phrase: Sequence[str], first: int) -> float:
        """About what a scan from a row on takes."""
        frequencies = [self._postings.frequency(term) for term in dict.fromkeys(phrase)]
        walked = POSTING_US * sum(frequencies) + MEETING_US * min(frequencies)
        floor = max(first - 1, self._postings.floor(lanes.walk(frequencies)))
        share = 1 - floor / max(self._postings.last_row, 1)
        return SCAN_US + SCAN_TERM_US * len(frequencies) + share * walked

    def _read(self, phrase: Sequence[str], places: list[int]) -> list[bool]:
        missing = [place for place in places if place not in self._cut]
        if missing:
            rows: Any = self._connection.execute(
                "SELECT title, summary, note, meta FROM json_each(?) AS wanted"
                " JOIN doc ON doc.id = wanted.value",
                (json.dumps(self._ids[missing].tolist()),),
            )
            for place, texts in zip(missing, rows, strict=True):
                self._cut[place] = "\n".join(map(_columns, texts))
        wanted = f" {' '.join(phrase)} "
        return [wanted in self._cut[place] for place in places]


def _columns(text: str) -> str:
    """The streams of a field as FTS5 has them: a line a column, a space around each term."""
    return "\n".join(f" {' '.join(column.split())} " for column in index_columns(text))
