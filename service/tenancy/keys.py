"""API keys: `ml_<kind>_<27 base62 characters><6 of checksum>`.

The prefix lets secret scanners and people recognise a key; the checksum lets us refuse a mistyped
or made-up one without looking anything up. Only a keyed hash of a key is ever stored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import re
import secrets
import string
import zlib
from collections.abc import Iterable
from typing import Final

from service.errors import InvalidRequest, Unauthorized

SCOPES: Final = ("search", "sync", "admin", "operator")
"""What a key may do, narrowest first: read a tenant, write it, manage its keys, run the service."""

_BASE62 = string.digits + string.ascii_uppercase + string.ascii_lowercase
_SECRET_CHARS = 27
"""62^27 = 2^160.7: at least 160 bits."""
_CHECKSUM_CHARS = 6
"""62^6 > 2^32: any CRC-32 fits."""

_KEY = re.compile(
    rf"ml_({'|'.join(SCOPES)})_([0-9A-Za-z]{{{_SECRET_CHARS}}})([0-9A-Za-z]{{{_CHECKSUM_CHARS}}})"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """A well-formed key. `repr` never shows it.

    Attributes:
        kind: the widest scope it was made with; a label, not a right.
        text: the whole key, as its holder sends it.
    """

    kind: str
    text: str = dataclasses.field(repr=False)

    def digest(self, secret: bytes) -> bytes:
        """HMAC-SHA-256 of the key, 32 bytes: what the registry stores."""
        return hmac.digest(secret, self.text.encode("ascii"), hashlib.sha256)

    def matches(self, digest: bytes, secret: bytes) -> bool:
        """Whether `digest` is this key's, compared in constant time."""
        return hmac.compare_digest(self.digest(secret), digest)


def mint(scopes: Iterable[str]) -> Key:
    """Make a fresh random key for these scopes.

    Raises:
        InvalidRequest: no scope, or one that does not exist.
    """
    kind = check_scopes(scopes)[-1]
    secret = "".join(secrets.choice(_BASE62) for _ in range(_SECRET_CHARS))
    body = f"ml_{kind}_{secret}"
    return Key(kind, body + _checksum(body))


def parse(text: str) -> Key:
    """Read a key.

    Raises:
        Unauthorized: it has another shape or its checksum is wrong; nothing was looked up.
    """
    match = _KEY.fullmatch(text)
    if match is None or match[3] != _checksum(text[: match.start(3)]):
        raise Unauthorized(
            "the key is not well-formed: it was cut, mistyped or never one of ours",
            hint="Copy the whole key again; it starts with `ml_` and is shown once when made.",
        )
    return Key(match[1], text)


def check_scopes(scopes: Iterable[str]) -> tuple[str, ...]:
    """The scopes without repeats, narrowest first.

    Raises:
        InvalidRequest: there is none, or one does not exist.
    """
    wanted = set(scopes)
    if unknown := wanted.difference(SCOPES):
        raise InvalidRequest(
            f"{len(unknown)} of the scopes do not exist", hint=f"Scopes are {', '.join(SCOPES)}."
        )
    if not wanted:
        raise InvalidRequest("a key needs a scope", hint=f"Scopes are {', '.join(SCOPES)}.")
    return tuple(scope for scope in SCOPES if scope in wanted)


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode("ascii"))
    digits = []
    for _ in range(_CHECKSUM_CHARS):
        number, digit = divmod(number, 62)
        digits.append(_BASE62[digit])
    return "".join(reversed(digits))
