"""Exact identifiers: documents whose ref, identifiers or text hold what was typed, as it stands."""

from __future__ import annotations

import json

import apsw

from service.search.postings import Scope
from service.text import fold_identifier, is_identifier

#: What an identifier is worth by where it stands: own ref, declared, mentioned in the text.
WORTH = (1.0, 0.9, 0.6)
#: What a declared identifier or ref is worth when only its beginning was typed.
PREFIX_WORTH = 0.7
PREFIX_CHARACTERS = 6

#: Bounds: words of a query looked up, documents taken for one.
WORDS = 64
DOCUMENTS = 200
_AFTER = "\U0010ffff"


def find(connection: apsw.Connection, text: str, scope: Scope) -> dict[int, float]:
    """Row id -> worth in (0, 1] of the best identifier that matches a word or the whole text."""
    found: dict[int, float] = {}
    for word in _words(text):
        rows = connection.execute(
            "SELECT doc_id, source FROM ident WHERE token = ? LIMIT ?", (word, DOCUMENTS)
        ).fetchall()
        for doc_id, source in rows:
            found[doc_id] = max(found.get(doc_id, 0.0), WORTH[source])
        if not rows and len(word) >= PREFIX_CHARACTERS and is_identifier(word):
            for (doc_id,) in connection.execute(
                "SELECT doc_id FROM ident WHERE token > ? AND token < ? AND source < 2 LIMIT ?",
                (word, word + _AFTER, DOCUMENTS),
            ):
                found[doc_id] = max(found.get(doc_id, 0.0), PREFIX_WORTH)
    return _within(connection, found, scope) if found and scope else found


def _words(text: str) -> list[str]:
    whole = fold_identifier(text)
    words = [fold_identifier(word) for word in text.split()[:WORDS]]
    bare = [word.strip(".,;:!?()[]{}\"'`<>") for word in words]
    return [word for word in dict.fromkeys([whole, *words, *bare]) if word]


def _within(
    connection: apsw.Connection, found: dict[int, float], scope: Scope
) -> dict[int, float]:
    condition, bindings = scope.condition()
    rows = connection.execute(
        f"SELECT id FROM doc WHERE id IN (SELECT value FROM json_each(?)) AND {condition}",
        (json.dumps(list(found)), *bindings),
    )
    return {doc_id: found[doc_id] for (doc_id,) in rows}
