"""How a web worker asks the follower for a file: one JSON line each way over a Unix socket.

{"file": "<file>", "min_version": 7, "deadline_ms": 4000}
{"ok": true, "version": 9, "path": "..."}
{"ok": false, "error": "behind", "detail": "...", "version": 5, "age_ms": 800}
{"file": "<file>", "max_age_ms": 500, "deadline_ms": 4000}
{"op": "warm", "file": "<file>", "pin_ms": 60000, "deadline_ms": 4000}
{"ok": true, "version": 9, "bytes": 8192, "pinned_ms": 60000}
{"op": "suspect", "file": "<file>"}  ->  {"ok": true, "damaged": false}
{"op": "counters"}  ->  {"ok": true, "counters": {...}}
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import socket
import socketserver
import threading
from pathlib import Path
from typing import Any

import orjson

from service.errors import IndexCorrupt, MemlaneError, NotFound, ReplicaBehind, Unavailable
from service.replica.follow import Follower
from service.replica.names import check_file, socket_path

SOCKET = "follower.sock"
LINE_BYTES = 64 * 1024
#: Requests in progress at once, over all workers of a node.
REQUESTS = 256
DEADLINE_MOST_MS = 60_000
#: What the follower may be late by before a worker gives up on it.
GRACE_MS = 1_000
CONNECT_MS = 1_000

_log = logging.getLogger(__name__)


class FollowerServer:
    """Answers the workers of one node; a thread a request."""

    def __init__(self, follower: Follower) -> None:
        """Bind the socket; the follower's lock on its folder makes any old one a leftover."""
        path = socket_path(follower.cache, SOCKET)
        path.unlink(missing_ok=True)
        room = threading.BoundedSemaphore(REQUESTS)

        class Handler(socketserver.StreamRequestHandler):
            timeout = CONNECT_MS / 1_000

            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    line = self.rfile.readline(LINE_BYTES)
                    if not room.acquire(blocking=False):
                        answer = _error("unavailable", "too many requests wait for the follower")
                    else:
                        try:
                            answer = _answer(follower, line)
                        finally:
                            room.release()
                    self.wfile.write(orjson.dumps(answer) + b"\n")

        self._server = _Server(str(path), Handler)
        path.chmod(0o600)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="activation"
        )

    def __enter__(self) -> FollowerServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@dataclasses.dataclass(frozen=True, slots=True)
class Warmed:
    """A file that was warmed: a version it has, its bytes, for how many ms it is pinned."""

    version: int
    bytes: int
    pinned_ms: int


class FollowerClient:
    """A worker's side; no state, so any thread may use it."""

    def __init__(self, cache: Path) -> None:
        self._path = socket_path(cache.absolute(), SOCKET)

    def ensure(
        self, file: str, min_version: int = 0, *, deadline_ms: int, max_age_ms: int | None = None
    ) -> int:
        """Have a file resident on this node, at `min_version` or later, and young enough.

        Returns:
            A version it has; the file itself may be further.

        Raises:
            NotFound: no writer announces this file.
            ReplicaBehind: it is here, and did not become new enough in time.
            IndexCorrupt: what the store has of it is bad.
            Unavailable: not here in time; or the follower does not run, and then what is resident
                already can still be served.
        """
        request: dict[str, Any] = {
            "file": file,
            "min_version": min_version,
            "deadline_ms": deadline_ms,
        }
        if max_age_ms is not None:
            request["max_age_ms"] = max_age_ms
        return int(_checked(self._ask(request, deadline_ms + GRACE_MS))["version"])

    def warm(self, file: str, *, pin_ms: int, deadline_ms: int) -> Warmed:
        """Have a file resident, and keep it from eviction for a while.

        Raises:
            NotFound, IndexCorrupt, Unavailable: see `ensure`.
        """
        request = {"op": "warm", "file": file, "pin_ms": pin_ms, "deadline_ms": deadline_ms}
        answer = _checked(self._ask(request, deadline_ms + GRACE_MS))
        return Warmed(int(answer["version"]), int(answer["bytes"]), int(answer["pinned_ms"]))

    def suspect(self, file: str, *, deadline_ms: int) -> bool:
        """Report a replica that SQLite calls corrupt; the follower checks it, and restores it.

        Returns:
            Whether it was damaged.

        Raises:
            Unavailable: the follower does not answer.
        """
        answer = self._ask({"op": "suspect", "file": file}, deadline_ms)
        return bool(answer.get("damaged"))

    def counters(self) -> dict[str, int]:
        """The follower's counters, and `uptime_ms`, which falls when it was started again.

        Raises:
            Unavailable: the follower does not run.
        """
        answer = self._ask({"op": "counters"}, CONNECT_MS)
        return {str(name): int(count) for name, count in answer["counters"].items()}

    def _ask(self, request: dict[str, Any], timeout_ms: int) -> dict[str, Any]:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
                connection.settimeout(CONNECT_MS / 1_000)
                connection.connect(str(self._path))
                connection.sendall(orjson.dumps(request) + b"\n")
                connection.settimeout(timeout_ms / 1_000)
                with connection.makefile("rb") as lines:
                    answer = orjson.loads(lines.readline(LINE_BYTES))
        except (OSError, orjson.JSONDecodeError) as error:
            raise Unavailable("this node's follower does not answer") from error
        if not isinstance(answer, dict):
            raise Unavailable("this node's follower answers in an unknown way")
        return answer


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = REQUESTS


def _answer(follower: Follower, line: bytes) -> dict[str, Any]:
    try:
        request = orjson.loads(line)
        if request.get("op") == "counters":
            counters = follower.counters.snapshot() | {"uptime_ms": follower.uptime_ms}
            return {"ok": True, "counters": counters}
        file = check_file(request["file"])
        if request.get("op") == "suspect":
            return {"ok": True, "damaged": follower.suspect(file)}
        deadline_ms = min(int(request["deadline_ms"]), DEADLINE_MOST_MS)
        if request.get("op") == "warm":
            replica, pinned_ms = follower.warm(file, int(request["pin_ms"]), deadline_ms)
            sizes = {"bytes": replica.bytes, "pinned_ms": pinned_ms}
            return {"ok": True, "version": replica.version, **sizes}
        min_version = int(request.get("min_version", 0))
        age = request.get("max_age_ms")
        max_age_ms = None if age is None else int(age)
        replica = follower.ensure(file, min_version, deadline_ms, max_age_ms=max_age_ms)
    except NotFound as error:
        return _error("not_found", error.detail)
    except ReplicaBehind as error:
        return _error("behind", error.detail, version=error.version, age_ms=error.age_ms)
    except IndexCorrupt as error:
        return _error("corrupt", error.detail)
    except Unavailable as error:
        return _error("unavailable", error.detail, retry_after_s=error.retry_after_s)
    except (MemlaneError, KeyError, TypeError, ValueError, AttributeError) as error:
        return _error("invalid", f"unreadable request: {type(error).__name__}")
    except Exception:
        _log.exception("a worker's request failed")
        return _error("unavailable", "the follower failed")
    return {"ok": True, "version": replica.version, "path": replica.path}


def _checked(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer, or the error that it tells of."""
    if answer.get("ok"):
        return answer
    detail = str(answer.get("detail", ""))
    match answer.get("error"):
        case "not_found":
            raise NotFound(detail)
        case "behind":
            raise ReplicaBehind(
                detail, version=int(answer["version"]), age_ms=int(answer["age_ms"])
            )
        case "corrupt":
            raise IndexCorrupt(detail)
        case _:
            raise Unavailable(detail, retry_after_s=int(answer.get("retry_after_s", 1)))


def _error(name: str, detail: str, **more: int) -> dict[str, Any]:
    return {"ok": False, "error": name, "detail": detail, **more}
