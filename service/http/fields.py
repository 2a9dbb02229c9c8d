"""The fields of a JSON object or a query string, with the types they must have.

What is refused is refused by name, so that a caller can correct it; what a field holds is never
repeated.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from typing import Final, TypeVar

from service.errors import InvalidRequest, TooLarge

LAST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, ms since 1970."""
_INTEGER: Final = re.compile(r"-?[0-9]{1,16}")
_T = TypeVar("_T")


class Fields:
    """The fields of a JSON object, taken one by one.

    Each method takes a field by name and returns `default` when it is missing or null.

    Args:
        values: the object.
        where: what to put before a field's name in errors, such as `semantic.`.
    """

    def __init__(self, values: Mapping[str, object], where: str = "") -> None:
        self._values = values
        self._where = where
        self._taken: set[str] = set()

    def text(
        self, name: str, default: str | None = None, *, most_chars: int, limit: str | None = None
    ) -> str:
        """A string of at most `most_chars` characters; needed when there is no default.

        A NUL character is a separator like any other: what people paste is never an error.

        Raises:
            InvalidRequest: it is missing, not a string, or longer.
            TooLarge: it is longer, and `limit` names the setting that says so.
        """
        value = self._take(name, default)
        if not isinstance(value, str):
            raise InvalidRequest(f"`{self._where}{name}` is not a string")
        if len(value) > most_chars:
            raise _too_long(f"`{self._where}{name}` is longer than {most_chars} characters", limit)
        return value.replace("\0", " ")

    def optional_text(self, name: str, *, most_chars: int) -> str | None:
        """A string, or None when it is missing or null.

        Raises:
            InvalidRequest: it is something else, or longer.
        """
        if self._values.get(name) is None:
            self._taken.add(name)
            return None
        return self.text(name, most_chars=most_chars)

    def integer(self, name: str, default: _T, *, least: int, most: int) -> int | _T:
        """A whole number within bounds.

        Raises:
            InvalidRequest: it is something else or out of bounds.
        """
        value = self._values.get(name)
        self._taken.add(name)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool):
            raise InvalidRequest(f"`{self._where}{name}` is not a whole number")
        if not least <= value <= most:
            raise InvalidRequest(f"`{self._where}{name}` is not between {least} and {most}")
        return value

    def flag(self, name: str, default: bool) -> bool:
        """True or false.

        Raises:
            InvalidRequest: it is something else.
        """
        value = self._take(name, default)
        if not isinstance(value, bool):
            raise InvalidRequest(f"`{self._where}{name}` is not true or false")
        return value

    def choice(self, name: str, default: str, *, among: Collection[str]) -> str:
        """One of a few words.

        Raises:
            InvalidRequest: it is something else.
        """
        value = self._take(name, default)
        if not isinstance(value, str) or value not in among:
            raise InvalidRequest(f"`{self._where}{name}` is not one of {', '.join(among)}")
        return value

    def texts(
        self, name: str, *, most: int, most_bytes: int, limit: str | None = None
    ) -> tuple[str, ...]:
        """A list of at most `most` strings of at most `most_bytes` bytes; empty when missing.

        Raises:
            InvalidRequest: it is something else, there are too many, or one is longer.
            TooLarge: one is longer, and `limit` names the setting that says so.
        """
        values = self._list(name, most)
        for value in values:
            if not isinstance(value, str) or "\0" in value:
                raise InvalidRequest(f"`{self._where}{name}` holds something that is not a string")
            if len(value.encode()) > most_bytes:
                raise _too_long(
                    f"`{self._where}{name}` holds one longer than {most_bytes} bytes", limit
                )
        return tuple(value for value in values if isinstance(value, str))

    def objects(self, name: str, *, most: int) -> list[Fields]:
        """A list of at most `most` objects; empty when missing.

        Raises:
            InvalidRequest: it is something else, or there are too many.
        """
        found = []
        for at, value in enumerate(self._list(name, most)):
            if not isinstance(value, dict):
                raise InvalidRequest(f"`{self._where}{name}[{at}]` is not an object")
            found.append(Fields(value, f"{self._where}{name}[{at}]."))
        return found

    def nested(self, name: str) -> Fields:
        """An object; an empty one when missing.

        Raises:
            InvalidRequest: it is something else.
        """
        value = self._take(name, {})
        if not isinstance(value, dict):
            raise InvalidRequest(f"`{self._where}{name}` is not an object")
        return Fields(value, f"{self._where}{name}.")

    def time_ms(self, name: str) -> int | None:
        """A time: ms since 1970, or an ISO 8601 date or time (UTC when it names no zone).

        Raises:
            InvalidRequest: it is something else or outside 1970 to 9999.
        """
        value = self._values.get(name)
        if not isinstance(value, str):
            return self.integer(name, None, least=0, most=LAST_MS)
        self._taken.add(name)
        try:
            moment = datetime.fromisoformat(value)
            moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            result = int(moment.timestamp() * 1_000)
        except (ValueError, OverflowError):
            result = -1
        if not 0 <= result <= LAST_MS:
            raise InvalidRequest(
                f"`{self._where}{name}` is not a time",
                hint="Give ms since 1970, or a date such as 2026-01-31 or 2026-01-31T12:00:00Z.",
            )
        return result

    def done(self) -> None:
        """Refuse fields that nobody took.

        Raises:
            InvalidRequest: naming the first of them.
        """
        for name in self._values:
            if name not in self._taken:
                known = ", ".join(sorted(self._taken))
                raise InvalidRequest(
                    f"unknown field {shown(self._where + name)}", hint=f"The fields are {known}."
                )

    def _take(self, name: str, default: object) -> object:
        self._taken.add(name)
        value = self._values.get(name)
        value = default if value is None else value
        if value is None:
            raise InvalidRequest(f"`{self._where}{name}` is missing")
        return value

    def _list(self, name: str, most: int) -> list[object]:
        value = self._take(name, [])
        if not isinstance(value, list):
            raise InvalidRequest(f"`{self._where}{name}` is not a list")
        if len(value) > most:
            raise InvalidRequest(f"`{self._where}{name}` holds more than {most}")
        return value


def _too_long(detail: str, limit: str | None) -> InvalidRequest:
    return InvalidRequest(detail) if limit is None else TooLarge(detail, limit=limit)


def shown(name: str) -> str:
    """A caller's field name, when it is one that can be shown."""
    return f"`{name}`" if len(name) <= 64 and name.isprintable() else "of this name"


def read_integer(text: str) -> int:
    """A parameter that is a whole number of at most 16 digits.

    Raises:
        ValueError: it is something else.
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError(text)
    return int(text)


def read_flag(text: str) -> bool:
    """A parameter that is true or false.

    Raises:
        ValueError: it is something else.
    """
    if text not in ("true", "false", "1", "0"):
        raise ValueError(text)
    return text in ("true", "1")
