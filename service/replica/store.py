"""The object store as replication sees it, and the one that is a folder (S3: `s3_store`).

Keys are relative, with `/` between parts; prefixes end with it. See `check_key`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import fcntl
import os
import secrets
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from service.errors import ReplicationError

#: Longest wait for another conditional writer of the same object; one takes milliseconds.
LOCK_S = 5.0
LOCK_POLL_S = 0.002


class Absent(enum.Enum):
    """Why a conditional read brought nothing."""

    MISSING = "missing"
    UNCHANGED = "unchanged"


@dataclasses.dataclass(frozen=True, slots=True)
class Stored:
    """A small object and the tag that changes whenever it does."""

    body: bytes
    etag: str


@dataclasses.dataclass(frozen=True, slots=True)
class Listed:
    """One listed object: key and size in bytes."""

    key: str
    size: int


class ObjectStore(Protocol):
    """What replication needs of a store. Every call raises `ReplicationError` when it fails."""

    @property
    def url(self) -> str:
        """How `stores.open_store` names it."""

    @property
    def level_format(self) -> str:
        """Where Litestream puts a level's files below a database's prefix."""

    @property
    def litestream_replica(self) -> Mapping[str, Any]:
        """The part of Litestream's configuration that says where it replicates to."""

    def get(self, key: str, *, known_etag: str | None = None) -> Stored | Absent:
        """Read a small object, unless it still has `known_etag`."""

    def open(self, key: str) -> BinaryIO | None:
        """Open an immutable object as a seekable stream; None when there is none."""

    def put(self, key: str, body: bytes) -> None:
        """Write or replace an object; a reader sees the old or the new one, never a mix."""

    def put_if(self, key: str, body: bytes, *, known_etag: str | None) -> str | None:
        """Write an object only if it still has `known_etag`, or, with None, only if there is none.

        Returns:
            The new etag; None when somebody else was first.
        """

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects below a prefix that ends with `/`, in no order."""

    def delete(self, key: str) -> None:
        """Remove an object; no error when it is not there."""

    def delete_prefix(self, prefix: str) -> int:
        """Remove all objects below a prefix that ends with `/`; how many there were."""


def check_key(key: str) -> None:
    """Refuse what some store would take for another key, or for a place outside of it.

    Raises:
        ReplicationError: a part is empty, `.` or `..`, or a character is a control or a backslash.
    """
    if any(part in {"", ".", ".."} for part in key.split("/")):
        raise ReplicationError(f"object key {key!r} leaves the store or has an empty part")
    if "\\" in key or not key.isprintable():
        raise ReplicationError(f"object key {key!r} has a character that not every store keeps")


def check_prefix(prefix: str) -> None:
    """Refuse a prefix that does not end with `/`, or whose rest is no key.

    Raises:
        ReplicationError: it is refused.
    """
    if not prefix.endswith("/"):
        raise ReplicationError(f"object prefix {prefix!r} does not end with /")
    check_key(prefix[:-1])


class FolderStore:
    """A folder as object store: the embedded default, and what tests run on."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()

    @property
    def url(self) -> str:
        """Its path."""
        return str(self.root)

    @property
    def litestream_replica(self) -> Mapping[str, Any]:
        """Litestream's file replica."""
        return {"type": "file", "path": str(self.root / "v1")}

    @property
    def level_format(self) -> str:
        """Litestream's file replica has an `ltx/` level and unpadded level names."""
        return "ltx/{level}/"

    def get(self, key: str, *, known_etag: str | None = None) -> Stored | Absent:
        """Read a small object, unless it still has `known_etag`."""
        try:
            with self._path(key).open("rb") as stream:
                # Of the open file, so that a replacement in between cannot mix tag and body.
                etag = _etag(os.fstat(stream.fileno()))
                if etag == known_etag:
                    return Absent.UNCHANGED
                return Stored(stream.read(), etag)
        except FileNotFoundError:
            return Absent.MISSING
        except OSError as error:
            raise _failed("read", key, error) from error

    def open(self, key: str) -> BinaryIO | None:
        """Open an object; it stays readable when deleted meanwhile."""
        try:
            return self._path(key).open("rb")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _failed("open", key, error) from error

    def put(self, key: str, body: bytes) -> None:
        """Write or replace an object by renaming a complete, synced file over it."""
        path = self._path(key)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with draft.open("xb") as stream:
                    stream.write(body)
                    stream.flush()
                    os.fsync(stream.fileno())
                # The kernel stamps files once a tick, and two writes within one may get the same
                # inode too: their etags must differ.
                now = time.time_ns()
                os.utime(draft, ns=(now, now))
                draft.replace(path)
            finally:
                draft.unlink(missing_ok=True)
        except OSError as error:
            raise _failed("write", key, error) from error

    def put_if(self, key: str, body: bytes, *, known_etag: str | None) -> str | None:
        """Write an object under a lock of its own that all conditional writers of it take."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with _locked(path.with_name(f".{path.name}.lock.tmp"), key):
                found = self.get(key)
                if (found.etag if isinstance(found, Stored) else None) != known_etag:
                    return None
                self.put(key, body)
                return _etag(path.stat())
        except OSError as error:
            raise _failed("write", key, error) from error

    def list(self, prefix: str) -> Iterator[Listed]:
        """All objects below a prefix; those that vanish on the way are left out."""
        check_prefix(prefix)
        folders = [self._path(prefix[:-1])]
        while folders:
            folder = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    for entry in entries:
                        if entry.is_dir(follow_symlinks=False):
                            folders.append(Path(entry.path))
                        elif not entry.name.endswith(".tmp"):
                            with contextlib.suppress(FileNotFoundError):
                                key = Path(entry.path).relative_to(self.root).as_posix()
                                yield Listed(key, entry.stat().st_size)
            except FileNotFoundError:
                continue
            except OSError as error:
                raise _failed("list", prefix, error) from error

    def delete(self, key: str) -> None:
        """Remove an object; no error when it is not there."""
        try:
            self._path(key).unlink(missing_ok=True)
        except OSError as error:
            raise _failed("delete", key, error) from error

    def delete_prefix(self, prefix: str) -> int:
        """Remove all objects below a prefix; the folders stay."""
        keys = [item.key for item in self.list(prefix)]
        for key in keys:
            self.delete(key)
        return len(keys)

    def _path(self, key: str) -> Path:
        check_key(key)
        return self.root / key


@contextlib.contextmanager
def _locked(path: Path, key: str) -> Iterator[None]:
    """Hold a lock that the kernel releases when its holder dies; a paused holder keeps it."""
    deadline = time.monotonic() + LOCK_S
    with path.open("a") as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as error:
                if time.monotonic() >= deadline:
                    raise ReplicationError(f"object {key} is locked for too long") from error
                time.sleep(LOCK_POLL_S)
        yield


def _etag(status: os.stat_result) -> str:
    return f"{status.st_mtime_ns:x}-{status.st_size:x}-{status.st_ino:x}"


def _failed(verb: str, key: str, error: OSError) -> ReplicationError:
    return ReplicationError(
        f"cannot {verb} object {key}: {error.strerror or error}",
        hint="Check that the store's folder exists, is writable and has room.",
    )
