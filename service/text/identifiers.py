"""What looks like an identifier, and its one folded form."""

from __future__ import annotations

import re
import unicodedata

MOST = 256
_SHAPED = re.compile(
    r"(?<![\w.-])(?:[A-Za-z][A-Za-z0-9]{0,15}-\d+|#\d{2,}|[0-9a-fA-F]{7,64})(?![\w-])"
)


def fold_identifier(text: str) -> str:
    """Case- and width-insensitive form."""
    return unicodedata.normalize("NFKC", text).casefold().strip()


def is_identifier(token: str) -> bool:
    """Whether a token has the shape of an identifier rather than of a word or number."""
    return any(c.isdigit() for c in token) and (
        any(c.isalpha() for c in token) or len(token) >= 6 or token.startswith("#")
    )


def identifiers_in(text: str) -> list[str]:
    """Identifiers in a text, folded, in order, without repeats, at most `MOST`."""
    found = dict.fromkeys(
        match.lower() for match in _SHAPED.findall(text) if any(c.isdigit() for c in match)
    )
    return list(found)[:MOST]
