"""Exact identifiers: documents whose ref, identifiers or text hold what was typed, as it stands."""

from __future__ import annotations

import dataclasses
import itertools
import json
from typing import Any

import apsw

from service.search.postings import Scope
from service.text import fold_identifier, is_identifier

#: What an identifier is worth by where it stands: own ref, declared, mentioned in the text.
WORTH = (1.0, 1.0, 0.6)
#: What a declared identifier or ref is worth when only its beginning was typed.
PREFIX_WORTH = 0.9
PREFIX_CHARACTERS = 6

#: Bounds: words of a query looked up, documents taken for one, links read for a begun one.
WORDS = 32
PLAIN_WORDS = 24
DOCUMENTS = 200
SCANNED = 1_000
_AFTER = "\U0010ffff"


@dataclasses.dataclass(frozen=True, slots=True)
class Match:
    """How a document matches by identifier, both in [0, 1].

    Attributes:
        worth: of the best identifier that was typed.
        own: whether that is its own ref; less than 1 when the ref is a plain word among others.
    """

    worth: float
    own: float = 0.0


NO_MATCH = Match(0.0)


def find(connection: apsw.Connection, text: str, scope: Scope) -> dict[int, Match]:
    """Row id -> how it matches, by a word of the text or the whole of it."""
    found: dict[int, Match] = {}
    words = _words(text)
    for word in words:
        rows: list[Any] = connection.execute(
            "SELECT doc_id, source FROM ident WHERE token = ? ORDER BY source, doc_id DESC LIMIT ?",
            (word, DOCUMENTS),
        ).fetchall()
        # A plain word that happens to be somebody's identifier is only a part of what was asked.
        share = 1.0 if word == words[0] or is_identifier(word) else 1.0 / len(words)
        for doc_id, source in rows:
            _better(found, doc_id, Match(share * WORTH[source], share if source == 0 else 0.0))
        if not rows and len(word) >= PREFIX_CHARACTERS and is_identifier(word):
            begun: list[Any] = connection.execute(
                "SELECT doc_id FROM (SELECT doc_id, source FROM ident"
                " WHERE token > ? AND token < ? LIMIT ?) WHERE source < 2 LIMIT ?",
                (word, word + _AFTER, SCANNED, DOCUMENTS),
            ).fetchall()
            for (doc_id,) in begun:
                _better(found, doc_id, Match(PREFIX_WORTH))
    return _within(connection, found, scope) if found and scope else found


def _better(found: dict[int, Match], doc_id: int, match: Match) -> None:
    known = found.get(doc_id, NO_MATCH)
    found[doc_id] = Match(max(known.worth, match.worth), max(known.own, match.own))


def _words(text: str) -> list[str]:
    whole = fold_identifier(text)
    words = [fold_identifier(word) for word in text.split()[:WORDS]]
    bare = [word.strip(".,;:!?()[]{}\"'`<>") for word in words]
    # A ticket typed with a blank: `ops 2041`.
    keys = [f"{key}-{number}" for key, number in itertools.pairwise(bare) if number.isdigit()]
    found = [word for word in dict.fromkeys([whole, *words, *bare, *keys]) if word]
    # What a long text names in passing is an identifier only if it looks like one.
    return found if len(found) <= PLAIN_WORDS else [w for w in found if is_identifier(w)]


def _within(connection: apsw.Connection, found: dict[int, Match], scope: Scope) -> dict[int, Match]:
    condition, bindings = scope.condition()
    rows: Any = connection.execute(
        f"SELECT id FROM doc WHERE id IN (SELECT value FROM json_each(?)) AND {condition}",
        (json.dumps(list(found)), *bindings),
    )
    return {doc_id: found[doc_id] for (doc_id,) in rows}
