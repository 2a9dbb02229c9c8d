"""One document of a tenant's memory, and the NDJSON line that carries it."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import orjson

from service.errors import InvalidDocument
from service.index import carried
from service.index.carried import Carried
from service.settings import Settings

#: Times before 1970 or after 9999 are mistakes (often seconds or nanoseconds sent as ms).
LAST_MS = 253_402_300_799_999
FIELDS = frozenset(
    {"op", "kind", "ref", "title", "summary", "note", "meta", "updated_at", "updatedAt"}
    | {"identifiers", "vectors", "if_newer"}
)
DELETE_FIELDS = frozenset({"op", "kind", "ref", "updated_at", "updatedAt", "if_newer"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """What a tenant keeps; (kind, ref) is its identity, `updated_at` is ms since 1970 UTC."""

    kind: str
    ref: str
    title: str = ""
    summary: str = ""
    note: str = ""
    meta: str = ""
    updated_at: int = 0
    identifiers: tuple[str, ...] = ()

    def content_hash(self) -> bytes:
        """16 bytes over everything that is searched; the order of identifiers does not count."""
        digest = hashlib.blake2b(digest_size=16)
        for text in (self.title, self.summary, self.note, self.meta, *sorted(self.identifiers)):
            raw = text.encode()
            digest.update(len(raw).to_bytes(8, "big"))
            digest.update(raw)
        return digest.digest()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Upsert:
    """Store this document; `line` is its number in the batch, from 1.

    `vectors` are those that its source has already, if any. With `if_newer` it is stored only if
    its (`updated_at`, content hash) is greater than what is there, and newer than its deletion.
    """

    line: int
    document: Document
    vectors: Carried | None = None
    if_newer: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """(kind, ref)."""
        return self.document.kind, self.document.ref


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Remove the document with this identity, if it is there.

    With `if_newer` only a version of it up to `updated_at` is removed, and none up to then is
    stored afterwards.
    """

    line: int
    kind: str
    ref: str
    updated_at: int = 0
    if_newer: bool = False

    @property
    def key(self) -> tuple[str, str]:
        """(kind, ref)."""
        return self.kind, self.ref


Operation = Upsert | Delete


def parse_line(line: bytes, *, number: int, now_ms: int, limits: Settings) -> Operation:
    """Read one NDJSON line.

    Args:
        line: the line without its newline.
        number: its place in the batch, from 1; kept on the operation.
        now_ms: the present, against times from the future.
        limits: sizes in bytes of UTF-8.

    Raises:
        InvalidDocument: what is wrong, naming the field and never quoting its text.
    """
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidDocument(
            f"not JSON at byte {error.pos + 1}", hint="Send one JSON object a line, in UTF-8."
        ) from None
    if not isinstance(value, dict):
        raise InvalidDocument("not a JSON object", hint="Send one JSON object a line.")
    op = value.get("op", "upsert")
    if op == "upsert":
        _refuse_unknown(value, FIELDS)
        vectors = value.get("vectors")
        return Upsert(
            line=number,
            document=_document(value, now_ms, limits),
            vectors=None if vectors is None else carried.parse(vectors),
            if_newer=_if_newer(value),
        )
    if op == "delete":
        _refuse_unknown(value, DELETE_FIELDS)
        if_newer = _if_newer(value)
        return Delete(
            line=number,
            kind=_kind(value, limits),
            ref=_ref(value, limits),
            updated_at=_time(value, now_ms, limits) if if_newer else 0,
            if_newer=if_newer,
        )
    raise InvalidDocument("`op` is neither `upsert` nor `delete`")


def _document(value: dict[str, Any], now_ms: int, limits: Settings) -> Document:
    return Document(
        kind=_kind(value, limits),
        ref=_ref(value, limits),
        title=_text(value, "title", limits.title_bytes),
        summary=_text(value, "summary", limits.line_bytes),
        note=_text(value, "note", limits.line_bytes),
        meta=_text(value, "meta", limits.meta_bytes),
        updated_at=_time(value, now_ms, limits),
        identifiers=_identifiers(value, limits),
    )


def _refuse_unknown(value: dict[str, Any], known: frozenset[str]) -> None:
    if value.keys() <= known:
        return
    name = sorted(value.keys() - known)[0]
    shown = name if name.isidentifier() and len(name) <= 40 else "of this name"
    raise InvalidDocument(
        f"unknown field {shown}", hint=f"The fields are {', '.join(sorted(known))}."
    )


def _text(value: dict[str, Any], field: str, limit: int) -> str:
    text = value.get(field)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise InvalidDocument(f"`{field}` is not a string")
    if len(text) > limit or (not text.isascii() and len(text.encode()) > limit):
        raise InvalidDocument(f"`{field}` is longer than {limit} bytes")
    if "\0" in text:
        raise InvalidDocument(f"`{field}` holds a NUL character", hint="Remove it and send again.")
    return text


def _name(value: dict[str, Any], field: str, limit: int) -> str:
    name = _text(value, field, limit)
    if not name.strip():
        raise InvalidDocument(f"`{field}` is missing or blank")
    if not name.isprintable():
        raise InvalidDocument(f"`{field}` holds a control character")
    return name


def _kind(value: dict[str, Any], limits: Settings) -> str:
    kind = _name(value, "kind", limits.kind_bytes)
    if not kind.replace("-", "_").isidentifier():
        raise InvalidDocument(
            "`kind` is not a plain word", hint="Use letters, digits, `_` and `-`: task, note, ..."
        )
    return kind


def _ref(value: dict[str, Any], limits: Settings) -> str:
    return _name(value, "ref", limits.ref_bytes)


def _time(value: dict[str, Any], now_ms: int, limits: Settings) -> int:
    if "updated_at" in value and "updatedAt" in value:
        raise InvalidDocument("both `updated_at` and `updatedAt` are given")
    time = value.get("updated_at", value.get("updatedAt"))
    if time is None:
        return now_ms
    if not isinstance(time, int) or isinstance(time, bool):
        raise InvalidDocument("`updated_at` is not a whole number of milliseconds")
    if not 0 <= time <= LAST_MS:
        raise InvalidDocument("`updated_at` is not a time in milliseconds since 1970")
    if time > now_ms + limits.future_ms:
        raise InvalidDocument(
            f"`updated_at` is more than {limits.future_ms} ms in the future",
            hint="Send milliseconds since 1970 in UTC, and check the sender's clock.",
        )
    return time


def _if_newer(value: dict[str, Any]) -> bool:
    asked = value.get("if_newer", False)
    if not isinstance(asked, bool):
        raise InvalidDocument("`if_newer` is neither true nor false")
    if asked and value.get("updated_at", value.get("updatedAt")) is None:
        raise InvalidDocument("`if_newer` needs `updated_at`")
    return asked


def _identifiers(value: dict[str, Any], limits: Settings) -> tuple[str, ...]:
    found = value.get("identifiers")
    if found is None:
        return ()
    if not isinstance(found, list):
        raise InvalidDocument("`identifiers` is not a list")
    if len(found) > limits.identifiers_count:
        raise InvalidDocument(f"`identifiers` holds more than {limits.identifiers_count}")
    for item in found:
        if not isinstance(item, str) or not item.strip() or "\0" in item:
            raise InvalidDocument("`identifiers` holds something that is not a plain string")
        if len(item.encode()) > limits.identifier_bytes:
            raise InvalidDocument(
                f"`identifiers` holds one longer than {limits.identifier_bytes} bytes"
            )
    return tuple(sorted(set(found)))
