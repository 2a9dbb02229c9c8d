"""Erasing deleted tenants, in the background, until nothing of them is left.

The registry says what is to be done (`tenancy/deletions.py`), so a writer that crashed or another
owner of the shard goes on where the last one stopped. Every step may be done again.

1. The registry's change is announced: from here on no takeover can bring the tenant back, and its
   keys stop on every reader that looks.
2. The file leaves the heads; readers drop their replica.
3. With its batches held up, Litestream lets go of it and it leaves the disk.
4. Its objects go, of all epochs, until the store lists none.
5. The receipt is kept.
"""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import Any, Protocol

from service.errors import MemlaneError
from service.node.tenants import Tenants
from service.replica import ObjectStore, Publisher
from service.replica.erase import epochs_of, erase_local, erase_objects, let_go
from service.replica.log_gate import LogGate
from service.replica.store import Listed
from service.settings import Settings
from service.tenancy.deletions import Deletion, Deletions
from service.tenancy.registry import Registry, now_ms

RETRY_S = 2.0
STOP_S = 5.0

_log = logging.getLogger(__name__)


class Turns(Protocol):
    """Keeps two operations off one tenant; see `lifecycle`."""

    def take(self, file: str) -> None:
        """Take a file's turn.

        Raises:
            Conflict: another operation has it.
        """

    def give_back(self, file: str) -> None:
        """Let the next one have it."""


class Eraser:
    """The writer's one thread that erases. `start`, `stop`, `wake` and `wait` fit any thread."""

    def __init__(
        self,
        data: Path,
        store: ObjectStore,
        *,
        tenants: Tenants,
        registry: Registry,
        registry_file: str,
        publisher: Publisher,
        turns: Turns,
        settings: Settings,
    ) -> None:
        self.deletions = Deletions(registry)
        self._data = data
        self._store = store
        self._tenants = tenants
        self._registry = registry
        self._registry_file = registry_file
        self._publisher = publisher
        self._turns = turns
        self._settings = settings
        self._gate = LogGate()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._main, name="eraser", daemon=True)
        self._news = threading.Condition()
        self._asked = False
        self._trouble: dict[str, str] = {}

    def start(self) -> None:
        """Go on with what is left from before."""
        self._thread.start()

    def stop(self) -> None:
        """End; what is under way goes on at the next start."""
        self._ending.set()
        self.wake()
        if self._thread.is_alive():
            self._thread.join(STOP_S)

    def wake(self) -> None:
        """There is something to erase."""
        with self._news:
            self._asked = True
            self._news.notify_all()

    def trouble(self, name: str) -> str | None:
        """Why a tenant's last attempt failed."""
        with self._news:
            return self._trouble.get(name)

    def wait(self, name: str, wait_ms: int) -> None:
        """Wait until a tenant's deletion has its receipt or the time is over."""
        deadline = time.monotonic() + wait_ms / 1_000
        while (known := self.deletions.find(name)) is not None and known.receipt is None:
            with self._news:
                left = deadline - time.monotonic()
                if left <= 0 or self._ending.is_set():
                    return
                self._news.wait(min(left, RETRY_S))

    # --- the thread

    def _main(self) -> None:
        while not self._ending.is_set():
            with self._news:
                self._asked = False
            for deletion in self.deletions.pending():
                if self._ending.is_set():
                    return
                self._attempt(deletion)
            with self._news:
                self._news.notify_all()
                self._news.wait_for(lambda: self._asked or self._ending.is_set(), RETRY_S)

    def _attempt(self, deletion: Deletion) -> None:
        name = deletion.tenant.name
        trouble = None
        try:
            self._turns.take(deletion.tenant.file)
            try:
                self._erase(deletion)
            finally:
                self._turns.give_back(deletion.tenant.file)
        except MemlaneError as error:
            trouble = error.detail
            if self._gate.opens():
                _log.warning("%s is not erased yet: %s", deletion.tenant.file, error.detail)
        except Exception:
            trouble = "an unexpected error, which was logged"
            _log.exception("%s is not erased yet", deletion.tenant.file)
        with self._news:
            if trouble is None:
                self._trouble.pop(name, None)
            else:
                self._trouble[name] = trouble
            self._news.notify_all()

    def _erase(self, deletion: Deletion) -> None:
        name, file = deletion.tenant.name, deletion.tenant.file
        deadline = time.monotonic() + self._settings.erase_ms / 1_000
        done = _Done(self.deletions, deletion)
        # Not all the time there is: whoever waits wants to hear that the store is down.
        patience_ms = self._settings.replicate_ms
        self._publisher.replicate_now(self._registry_file, self._registry.version, patience_ms)
        self._publisher.forget(file, patience_ms)
        with self._tenants.still(file):
            # Twice: a Litestream that is started just in between takes the file up once more.
            for _ in range(2):
                let_go(self._data, file, deadline)
                done.add("local_files_removed", erase_local(self._data, file))
        erase_objects(
            self._store,
            file,
            settle_ms=self._settings.erase_settle_ms,
            deadline=deadline,
            note=done.objects,
            ending=self._ending.wait,
        )
        staleness_ms = self._settings.staleness_ms
        receipt = {
            "tenant": name,
            "file": file,
            "requested_at": deletion.requested_at,
            "deleted_at": now_ms(),
            **done.progress,
            "objects_remaining": 0,
            "announced": True,
            "readers": f"refuse within {staleness_ms} ms: one that knows less is not ready",
        }
        self.deletions.finish(name, receipt)


class _Done:
    """What an attempt and those before it removed; kept in the registry as it grows."""

    def __init__(self, deletions: Deletions, deletion: Deletion) -> None:
        self._deletions = deletions
        self._name = deletion.tenant.name
        self.progress: dict[str, Any] = {
            "local_files_removed": 0,
            "objects_deleted": 0,
            "bytes_deleted": 0,
            "epochs": [],
            "attempts": 0,
            **deletion.progress,
        }
        self.progress["attempts"] += 1

    def add(self, what: str, count: int) -> None:
        self.progress[what] += count
        self._deletions.note(self._name, self.progress)

    def objects(self, found: list[Listed]) -> None:
        """Before they go: a crash may then count some of them twice, and never hides any."""
        self.progress["bytes_deleted"] += sum(item.size for item in found)
        self.progress["epochs"] = sorted({*self.progress["epochs"], *epochs_of(found)})
        self.add("objects_deleted", len(found))
