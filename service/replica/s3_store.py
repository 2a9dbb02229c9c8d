"""S3 and what speaks its protocol as object store, through `obstore` (Rust's object_store)."""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import IO, Any, BinaryIO, cast

import obstore
from obstore import store as stores
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    NotFoundError,
    NotModifiedError,
    PreconditionError,
)

from service.errors import ReplicationError
from service.replica.store import Absent, Listed, Stored, check_key, check_prefix

#: An opened object up to this size stays in memory; a larger one goes to a temporary file.
SPOOL_BYTES = 8 * 1024 * 1024
#: What one request for an object must bring at least, or the download fails.
CHUNK_BYTES = 256 * 1024
#: Objects removed by one call (the protocol's own limit).
DELETED_AT_ONCE = 1_000
REGION_DEFAULT = "us-east-1"


@dataclasses.dataclass(frozen=True, slots=True)
class Bucket:
    """Where on which server: `s3://bucket/prefix?endpoint=...&region=...`.

    Attributes:
        name: the bucket.
        prefix: what all keys begin with, without a slash at its end; may be empty.
        endpoint: of a compatible server; None for Amazon's own.
        region: signed into each request.
    """

    name: str
    prefix: str
    endpoint: str | None
    region: str


class S3Store:
    """One bucket and prefix. Credentials come from the environment, as `AWS_...`.

    Args:
        bucket: where.
        timeout_ms: longest one request may take.
        retries: of requests that are safe to repeat.
    """

    def __init__(self, bucket: Bucket, *, timeout_ms: int, retries: int) -> None:
        self._bucket = bucket
        self._again = _client(bucket, timeout_ms, retries)
        # A conditional write whose answer was lost would, repeated, find itself in the way.
        self._once = _client(bucket, timeout_ms, 0)

    @property
    def url(self) -> str:
        """How `open_store` reads it back."""
        query = f"?region={self._bucket.region}"
        if self._bucket.endpoint is not None:
            query += f"&endpoint={self._bucket.endpoint}"
        return f"s3://{self._bucket.name}/{self._bucket.prefix}{query}"

    @property
    def level_format(self) -> str:
        """Litestream's S3 replica has four-digit level names."""
        return "{level:04d}/"

    @property
    def litestream_replica(self) -> Mapping[str, Any]:
        """Where Litestream replicates to; it reads credentials from its environment too."""
        bucket = self._bucket
        replica: dict[str, Any] = {
            "type": "s3",
            "bucket": bucket.name,
            "path": f"{bucket.prefix}/v1" if bucket.prefix else "v1",
            "region": bucket.region,
        }
        if bucket.endpoint is not None:
            replica |= {"endpoint": bucket.endpoint, "force-path-style": True}
        return replica

    def get(self, key: str, *, known_etag: str | None = None) -> Stored | Absent:
        """Read a small object, unless it still has `known_etag`."""
        check_key(key)
        options = {} if known_etag is None else {"if_none_match": known_etag}
        try:
            found = obstore.get(self._again, key, options=cast("Any", options))
            etag = found.meta["e_tag"]
            body = bytes(found.bytes())
        except NotModifiedError:
            return Absent.UNCHANGED
        except (NotFoundError, FileNotFoundError):
            return Absent.MISSING
        except BaseError as error:
            raise _failed("read", key, error) from error
        if etag is None:
            raise ReplicationError(f"the object store gave {key} no ETag")
        return Stored(body, etag)

    def open(self, key: str) -> BinaryIO | None:
        """Read an object, to memory or a temporary file, and give it as a seekable stream."""
        check_key(key)
        with contextlib.ExitStack() as stack:
            spool = stack.enter_context(tempfile.SpooledTemporaryFile(SPOOL_BYTES))
            try:
                self._download(key, spool)
            except (NotFoundError, FileNotFoundError):
                return None
            except BaseError as error:
                raise _failed("open", key, error) from error
            except OSError as error:
                raise ReplicationError(
                    f"cannot keep object {key}: {error.strerror or error}",
                    hint="Check that the folder for temporary files (TMPDIR) has room.",
                ) from error
            spool.seek(0)
            stack.pop_all()
            return cast("BinaryIO", spool)

    def _download(self, key: str, to: IO[bytes]) -> None:
        """Write a whole object to an empty file.

        A request's timeout covers its body too, and over a slow link a large object takes longer.
        So as long as a request brings something, another one goes on behind it.
        """
        options: dict[str, Any] = {}
        while True:
            start = to.tell()
            found = obstore.get(self._again, key, options=cast("Any", options))
            try:
                for chunk in found.stream(min_chunk_size=CHUNK_BYTES):
                    to.write(chunk)
            except BaseError:
                if to.tell() == start:
                    raise
            else:
                return
            if to.tell() >= found.meta["size"]:
                return
            options = {"range": {"offset": to.tell()}, "if_match": found.meta["e_tag"]}

    def put(self, key: str, body: bytes) -> None:
        """Write or replace an object."""
        check_key(key)
        try:
            obstore.put(self._again, key, body, use_multipart=False)
        except BaseError as error:
            raise _failed("write", key, error) from error

    def put_if(self, key: str, body: bytes, *, known_etag: str | None) -> str | None:
        """Write an object only if it still has `known_etag`, or, with None, if there is none."""
        check_key(key)
        mode: Any = "create" if known_etag is None else {"e_tag": known_etag}
        try:
            put = obstore.put(self._once, key, body, mode=mode, use_multipart=False)
        except (AlreadyExistsError, PreconditionError, NotFoundError, FileNotFoundError):
            return None
        except BaseError as error:
            raise _failed("write", key, error) from error
        etag = put["e_tag"]
        if etag is None:
            raise ReplicationError(f"the object store gave {key} no ETag")
        return etag

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects below a prefix."""
        check_prefix(prefix)
        try:
            for batch in obstore.list(self._again, prefix=prefix):
                for item in batch:
                    yield Listed(item["path"], item["size"])
        except BaseError as error:
            raise _failed("list", prefix, error) from error

    def delete(self, key: str) -> None:
        """Remove an object; no error when it is not there."""
        check_key(key)
        try:
            obstore.delete(self._again, key)
        except (NotFoundError, FileNotFoundError):
            return
        except BaseError as error:
            raise _failed("delete", key, error) from error

    def delete_prefix(self, prefix: str) -> int:
        """Remove all objects below a prefix; how many there were."""
        keys = [item.key for item in self.list(prefix)]
        for first in range(0, len(keys), DELETED_AT_ONCE):
            try:
                obstore.delete(self._again, keys[first : first + DELETED_AT_ONCE])
            except (NotFoundError, FileNotFoundError):
                continue
            except BaseError as error:
                raise _failed("delete", prefix, error) from error
        return len(keys)


def _client(bucket: Bucket, timeout_ms: int, retries: int) -> stores.S3Store:
    timeout = timedelta(milliseconds=timeout_ms)
    endpoint: dict[str, Any] = {} if bucket.endpoint is None else {"endpoint": bucket.endpoint}
    try:
        return stores.S3Store(
            bucket.name,
            prefix=bucket.prefix or None,
            region=bucket.region,
            **endpoint,
            client_options={
                "timeout": timeout,
                "connect_timeout": timeout,
                "allow_http": (bucket.endpoint or "").startswith("http://"),
            },
            retry_config={
                "max_retries": retries,
                "retry_timeout": timeout,
                "backoff": {
                    "init_backoff": timedelta(milliseconds=100),
                    "max_backoff": timedelta(seconds=1),
                    "base": 2,
                },
            },
        )
    except BaseError as error:
        raise ReplicationError(
            f"the object store cannot be used: {_told(error)}",
            hint="Check the URL, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
        ) from error


def _failed(verb: str, key: str, error: Exception) -> ReplicationError:
    return ReplicationError(
        f"cannot {verb} object {key}: {_told(error)}",
        hint="Check that the object store answers, and that the credentials may do this.",
    )


def _told(error: Exception) -> str:
    """The first line, bounded: the library appends what it was doing, and whole responses."""
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
