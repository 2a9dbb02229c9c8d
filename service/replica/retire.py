"""Removing what older epochs of a shard's files left in the object store.

Once the heads announce a newer epoch of a file, nothing of the older ones is read any more but by
readers that have not seen it yet, and by a restore to an earlier moment. So they stay for
`old_epochs_ms` and then go, one file at a time. An epoch below an announced one can never come
back, so this is safe whoever does it, also an owner that has lost its shard and not noticed.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from service.errors import MemlaneError
from service.replica.counters import Counters
from service.replica.fencing import announced
from service.replica.names import epoch_of_key, file_prefix, replica_prefix
from service.replica.store import ObjectStore

#: How often the heads are looked at, and the pause after each file that was cleaned.
SWEEP_S = 30.0
PAUSE_S = 0.2

_log = logging.getLogger(__name__)


class OldEpochs:
    """Cleans up behind one shard. `start` and `stop` fit any thread."""

    def __init__(
        self,
        store: ObjectStore,
        shard: str,
        *,
        old_epochs_ms: int,
        counters: Counters,
        pause_s: float = PAUSE_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            store: where the replicas lie.
            shard: whose files they are of.
            old_epochs_ms: how long an epoch stays after a newer one was first seen announced.
            counters: old_epochs, old_objects (removed) and failed_sweeps are counted there.
            pause_s: the rest between two files.
            clock_s: monotonic seconds.
        """
        self._counters = counters
        self._store = store
        self._shard = shard
        self._keep_s = old_epochs_ms / 1_000
        self._pause_s = pause_s
        self._clock_s = clock_s
        self._seen: dict[str, tuple[int, float]] = {}
        self._clean: dict[str, int] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._main, name="old-epochs", daemon=True)

    def start(self) -> None:
        """Clean up from now on."""
        self._thread.start()

    def stop(self) -> None:
        """End soon; a removal under way is not waited for."""
        self._stopping.set()

    def sweep(self) -> None:
        """Look at every announced file once.

        Raises:
            ReplicationError: the store failed; the rest is done next time.
        """
        known, _ = announced(self._store, self._shard)
        tenants = {} if known is None else known.tenants
        for file in [file for file in self._seen if file not in tenants]:
            del self._seen[file]
            self._clean.pop(file, None)
        for file, head in tenants.items():
            if self._stopping.is_set():
                return
            epoch, since = self._seen.get(file, (None, 0.0))
            if epoch != head.epoch:
                self._seen[file] = (head.epoch, self._clock_s())
            elif self._clean.get(file) != epoch and self._clock_s() - since >= self._keep_s:
                self._remove(file, head.epoch)
                self._clean[file] = head.epoch
                self._stopping.wait(self._pause_s)

    def _remove(self, file: str, epoch: int) -> None:
        keys = (item.key for item in self._store.list(file_prefix(file)))
        found = {epoch_of_key(key) for key in keys}
        for old in sorted(one for one in found if one is not None and one < epoch):
            removed = self._store.delete_prefix(replica_prefix(file, old))
            self._counters.add("old_epochs")
            self._counters.add("old_objects", removed)

    def _main(self) -> None:
        while not self._stopping.wait(min(SWEEP_S, self._keep_s)):
            try:
                self.sweep()
            except MemlaneError as error:
                self._counters.add("failed_sweeps")
                _log.warning("old epochs are not removed: %s", error.detail)
            except Exception:
                self._counters.add("failed_sweeps")
                _log.exception("old epochs are not removed")
