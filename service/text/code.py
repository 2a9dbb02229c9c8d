"""Names, which mean their letters: identifiers, and names in code.

Those are camelCase, snake_case, file.ext, path/to, Type::member.
"""

from __future__ import annotations

import re
from typing import Final

from service.text.identifiers import is_identifier

_INSIDE: Final = re.compile(
    r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]|[A-Za-z0-9](?:[./\\#]|::|->)[A-Za-z0-9]|_"
)
_ONLY: Final = re.compile(r"[\x21-\x7e]+")


def is_code(token: str) -> bool:
    """Whether a token is written as code is, so that its letters mean more than its sense.

    Hyphenated words are not: prose has them too.
    """
    return _ONLY.fullmatch(token) is not None and _INSIDE.search(token) is not None


def names_only(text: str) -> bool:
    """Whether a text has words, and all of them are identifiers or names in code.

    What is near such a text by its sense is not what is looked for.
    """
    words = text.split()
    return bool(words) and all(is_identifier(word) or is_code(word) for word in words)
