"""Keeping a lease in one process, and asking in another whether it still holds.

    <data>/writer/lease.json  {"term": 7, "owner": "...", "deadline_ms": 81234.5, "counters": {..}}

The supervising process renews in a thread of its own (`LeaseKeeper`) and replaces the file after
each renewal; the process that commits reads it before it begins a batch and before it acknowledges
one (`LeaseGuard`). The deadline is by `CLOCK_BOOTTIME`, which both share. Whoever cannot read the
file, or finds another term in it, does not own the shard.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson

from service.errors import ReplicationError, SetupError, Unavailable
from service.replica.lease import Lease, boottime_ms
from service.replica.log_gate import LogGate
from service.replica.tenure import UNFENCED, Tenure

#: A lease is renewed so many times in its length; after a failure four times as often.
RENEWALS_A_LEASE = 3
RETRIES_A_RENEWAL = 4

_log = logging.getLogger(__name__)


def lease_file(data: Path) -> Path:
    """Where a writer's processes tell each other of the lease."""
    return data / "writer" / "lease.json"


class LeaseKeeper:
    """Renews an acquired lease until it is lost or given back. Belongs to one thread."""

    def __init__(self, lease: Lease, tenure: Tenure, data: Path, *, lease_ms: int) -> None:
        """Prepare.

        Args:
            lease: acquired; nobody else may use it until `stop`.
            tenure: what acquiring it gave.
            data: the writer's data folder.
            lease_ms: its length.
        """
        self.lost = False
        self._lease = lease
        self._tenure = tenure
        self._path = lease_file(data)
        self._pause_s = lease_ms / RENEWALS_A_LEASE / 1_000
        self._gate = LogGate()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="lease", daemon=True)

    def start(self) -> None:
        """Tell of the lease, and keep it.

        Raises:
            SetupError: the folder cannot be written.
        """
        try:
            self._tell()
        except OSError as error:
            raise SetupError(f"cannot write {self._path}: {error.strerror}") from error
        self._thread.start()

    def stop(self, timeout_ms: int) -> None:
        """Give the lease back. Nothing may write under it any more.

        A store that does not answer in time is not waited for: the lease then runs out.
        """
        self._path.unlink(missing_ok=True)
        self._stopping.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout_ms / 1_000)
        if self._thread.is_alive() or self.lost:
            return
        try:
            self._lease.release()
        except ReplicationError as error:
            _log.warning("the lease is not released, it will run out: %s", error.detail)

    def _main(self) -> None:
        pause_s = self._pause_s
        while not self._stopping.wait(pause_s):
            pause_s = self._pause_s / RETRIES_A_RENEWAL
            try:
                if not self._lease.renew():
                    self.lost = True
                    self._path.unlink(missing_ok=True)
                    return
                self._tell()
            except (ReplicationError, OSError) as error:
                if self._gate.opens():
                    _log.warning("the lease is not renewed: %s", error)
                continue
            except Exception:
                _log.exception("the lease is not renewed")
                continue
            pause_s = self._pause_s

    def _tell(self) -> None:
        draft = self._path.with_name(f".{self._path.name}.tmp")
        body = {
            "term": self._tenure.term,
            "owner": self._tenure.owner,
            "deadline_ms": self._lease.deadline_ms,
            "counters": self._lease.counters.snapshot(),
        }
        draft.write_bytes(orjson.dumps(body))
        draft.replace(self._path)


class LeaseGuard:
    """Says whether this data folder owns its shard under one tenure. Fits any thread."""

    def __init__(
        self, data: Path, tenure: Tenure, *, clock_ms: Callable[[], float] = boottime_ms
    ) -> None:
        """Prepare; `clock_ms` is the keeper's."""
        self.tenure = tenure
        self._path = lease_file(data)
        self._clock_ms = clock_ms

    def check(self) -> None:
        """Pass if the shard is ours now.

        Raises:
            Unavailable: it is not, or not for sure.
        """
        if (reason := self.reason()) is not None:
            raise lost_shard(reason)

    def reason(self) -> str | None:
        """Why the shard is not ours; None when it is, or when nobody contends for it."""
        if self.tenure == UNFENCED:
            return None
        told = self._read()
        if (told.get("term"), told.get("owner")) != (self.tenure.term, self.tenure.owner):
            return "its lease is another's"
        over_ms = self._clock_ms() - told["deadline_ms"]
        if over_ms >= 0:
            return f"its lease ran out {over_ms:.0f} ms ago and could not be renewed"
        return None

    def health(self) -> dict[str, Any]:
        """Term, time left (ms) and the keeper's counters."""
        told = self._read()
        left_ms = told.get("deadline_ms", 0.0) - self._clock_ms()
        return {
            "term": self.tenure.term,
            "left_ms": max(0, int(left_ms)),
            **told.get("counters", {}),
        }

    def _read(self) -> dict[str, Any]:
        try:
            told = orjson.loads(self._path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            return {}  # told of nothing, we own nothing
        return told if isinstance(told, dict) else {}


def lost_shard(reason: str) -> Unavailable:
    """What a caller is told whose batch is not acknowledged."""
    return Unavailable(
        f"this writer lost its shard: {reason}",
        hint="Send the batch again with the same Idempotency-Key, to the shard's writer.",
    )
