"""An object store in memory, for tests of what is decided over it."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import Any, BinaryIO

from service.replica.store import Absent, Listed, Stored


class MemoryStore:
    """Etags are made of the content, as S3's are: equal bodies cannot be told apart."""

    url = "memory"
    level_format = "ltx/{level}/"
    litestream_replica: Mapping[str, Any] = {}

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def get(self, key: str, *, known_etag: str | None = None) -> Stored | Absent:
        if (body := self.objects.get(key)) is None:
            return Absent.MISSING
        return Absent.UNCHANGED if known_etag == _etag(body) else Stored(body, _etag(body))

    def open(self, key: str) -> BinaryIO | None:
        body = self.objects.get(key)
        return None if body is None else io.BytesIO(body)

    def put(self, key: str, body: bytes) -> None:
        self.objects[key] = body

    def put_if(self, key: str, body: bytes, *, known_etag: str | None) -> str | None:
        found = self.objects.get(key)
        if (None if found is None else _etag(found)) != known_etag:
            return None
        self.objects[key] = body
        return _etag(body)

    def list(self, prefix: str) -> Iterator[Listed]:
        yield from [Listed(k, len(b)) for k, b in self.objects.items() if k.startswith(prefix)]

    def delete(self, key: str) -> None:
        self.objects.pop(key, None)

    def delete_prefix(self, prefix: str) -> int:
        keys = [key for key in self.objects if key.startswith(prefix)]
        for key in keys:
            del self.objects[key]
        return len(keys)


def _etag(body: bytes) -> str:
    return f"{hash(body):x}"
