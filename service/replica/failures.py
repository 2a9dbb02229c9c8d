"""Files that cannot be brought up: since when, why, and when to try again.

The pause doubles with each failure. A file that was bad when it was made anew waits longer: trying
costs a whole download, and it will be bad again until its writer does something about it.
"""

from __future__ import annotations

import dataclasses
import time

from service.errors import IndexCorrupt, IndexFileError, MemlaneError, Unavailable
from service.replica.apply import DiskFullError
from service.replica.freshness import now_ms
from service.replica.node import Node

#: After a failure a file is left alone for this long; doubled each time, up to the second.
RETRY_MS = 250
RETRY_MOST_MS = 15_000
#: The same for a file whose restored content is bad.
BAD_RETRY_MS = 5_000
BAD_RETRY_MOST_MS = 300_000


@dataclasses.dataclass(slots=True)
class _Failure:
    count: int
    since_ms: float
    again_at: float
    bad: bool
    epoch: int
    detail: str


class Failures:
    """One follower's; used with its lock held. What is on disk is for `readyz`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._failures: dict[str, _Failure] = {}

    def check(self, file: str, epoch: int) -> None:
        """Refuse to try again too soon; a new epoch is another file and may be tried at once.

        Raises:
            IndexCorrupt: what the store has of it is bad.
            Unavailable: it failed a moment ago.
        """
        failure = self._failures.get(file)
        if failure is None or failure.epoch != epoch:
            return
        left = failure.again_at - time.monotonic()
        if left <= 0:
            return
        if failure.bad:
            raise IndexCorrupt(failure.detail)
        raise Unavailable(failure.detail, retry_after_s=int(left) + 1)

    def is_bad(self, file: str) -> bool:
        """Was the content itself bad at the last attempt?"""
        failure = self._failures.get(file)
        return failure is not None and failure.bad

    def note(self, file: str, epoch: int, error: Exception) -> None:
        """Bringing a file up failed."""
        known = self._failures.get(file)
        if known is not None and known.epoch != epoch:
            known = None
        count = 1 if known is None else known.count + 1
        since_ms = now_ms() if known is None else known.since_ms
        bad = isinstance(error, IndexFileError)
        least, most = (BAD_RETRY_MS, BAD_RETRY_MOST_MS) if bad else (RETRY_MS, RETRY_MOST_MS)
        pause_ms = min(least << min(count - 1, 10), most)
        again_at = time.monotonic() + pause_ms / 1_000
        self._failures[file] = _Failure(count, since_ms, again_at, bad, epoch, detail_of(error))
        self._node.put_trouble(file, _cause(error), since_ms, count)

    def forget(self, file: str) -> None:
        """It is well again, or gone."""
        if self._failures.pop(file, None) is not None:
            self._node.put_trouble(file, "", 0, 0)


def detail_of(error: Exception) -> str:
    """What happened, for those who asked."""
    return error.detail if isinstance(error, MemlaneError) else type(error).__name__


def _cause(error: Exception) -> str:
    if isinstance(error, IndexFileError):
        return "bad_file"
    if isinstance(error, DiskFullError):
        return "disk_full"
    return "in_use" if isinstance(error, Unavailable) else "store"
