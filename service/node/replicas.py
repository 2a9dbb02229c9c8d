"""A reader node's tenants: replicas that the follower keeps, brought here when first asked for."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, Self

from service.errors import IndexCorrupt, NotFound, ReplicaBehind, Unavailable
from service.index.reader import IndexReader
from service.node.pool import ReaderPool
from service.replica import FollowerClient, ReplicaCache, ReplicaView
from service.replica.vitals import NodeHealth
from service.settings import Settings

#: How often a replica that is replaced or half-written under our eyes is looked at again.
ATTEMPTS = 3
#: How often connections to files that are gone are looked for.
SWEEP_S = 1.0

Temperature = Literal["hot", "warm", "cold"]
"""How a file came to a query: `hot`, from an open connection; `warm`, it was here and was opened;
`cold`, it was brought to this node for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Warmth:
    """A tenant that was asked to be here.

    Attributes:
        resident: it is.
        temperature: how it was found.
        version: at least this version of it is here; None when it is not.
        bytes: its size.
        activated_ms: how long bringing it here took; 0 when it was here.
        pinned_ms: for how long it is kept from eviction.
        reason: why it is not here; None when it is.
    """

    resident: bool
    temperature: Temperature
    version: int | None
    bytes: int
    activated_ms: int
    pinned_ms: int
    reason: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedReplica:
    """A replica held still for one request; see `service.http.node.Opened`."""

    reader: IndexReader
    age_ms: int
    as_of_ms: int
    temperature: Temperature


class Replicas:
    """The files of one worker of a reader node. Safe to share among threads."""

    def __init__(self, cache: Path, settings: Settings) -> None:
        self._settings = settings
        self._cache = ReplicaCache(cache)
        self._follower = FollowerClient(cache)
        self._pool = ReaderPool.within(settings)
        self._lock = threading.Lock()
        self._activated: set[str] = set()
        self.opened: Callable[[Temperature, float], None] = lambda *_: None
        """Is told how a file came to a query, and after how many seconds."""
        self._ending = threading.Event()
        self._sweeper = threading.Thread(target=self._sweep, name="sweeper", daemon=True)

    def __enter__(self) -> Self:
        self._sweeper.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        if self._sweeper.is_alive():
            self._sweeper.join()
        self._pool.close()
        self._cache.close()

    @contextmanager
    def open(
        self,
        file: str,
        *,
        min_version: int | None,
        max_staleness_ms: int | None,
        deadline_ms: int,
    ) -> Iterator[OpenedReplica]:
        """See `service.http.node.Files.open`."""
        begun = time.monotonic()
        deadline = begun + deadline_ms / 1000
        view, brought = self._view(file, min_version, deadline)
        if max_staleness_ms is not None:
            view = self._young(view, max_staleness_ms, deadline)
        with ExitStack() as stack:
            hot = self._pool.has(view.path)
            reader, view = self._hold(stack, view)
            if min_version is not None and reader.version < min_version:
                raise ReplicaBehind(
                    f"this replica has version {reader.version}, {min_version} was asked for",
                    version=reader.version,
                    age_ms=view.age_ms,
                )
            self._cache.touch(view)
            temperature: Temperature = "hot" if hot else "warm"
            if brought or self._was_brought(file):
                temperature = "cold"
            self.opened(temperature, time.monotonic() - begun)
            yield OpenedReplica(reader, view.age_ms, view.as_of, temperature)

    def warm(self, file: str, *, pin_ms: int, wait_ms: int) -> Warmth:
        """Bring a tenant's file here and keep it from eviction. Called in a thread.

        Args:
            file: its name in the registry.
            pin_ms: for how long; 0 does not pin.
            wait_ms: how long to wait for it; it comes all the same when that is too short.

        Raises:
            NotFound: there is no such file.
            IndexCorrupt: what the store has of it is bad.
        """
        begun = time.monotonic()
        view = self._cache.view(file)
        was: Temperature = "cold"
        if view is not None:
            was = "hot" if self._pool.has(view.path) else "warm"
        try:
            warmed = self._follower.warm(file, pin_ms=pin_ms, deadline_ms=wait_ms)
        except Unavailable as error:
            return Warmth(False, "cold", None, 0, 0, 0, error.detail)
        took_ms = 0 if view is not None else round((time.monotonic() - begun) * 1_000)
        return Warmth(True, was, warmed.version, warmed.bytes, took_ms, warmed.pinned_ms)

    def registry_path(self) -> Path:
        """Where the registry lies on this node.

        Raises:
            Unavailable: it is not here yet.
        """
        file = self._cache.registry_file()
        view = None if file is None else self._cache.view(file)
        if view is None:
            raise Unavailable("this node has no registry yet", retry_after_s=1)
        self._report_missing(view)
        return view.path

    def registry_clean(self, path: Path) -> bool:
        """Whether the registry at this path is whole; asked while it is being read."""
        file = self._cache.registry_file()
        view = None if file is None else self._cache.view(file)
        return view is not None and view.path == path and self._cache.check_clean(view)

    def vitals(self) -> NodeHealth:
        """How old what this node knows is, and what it holds."""
        return self._cache.node_health()

    def health(self) -> dict[str, Any]:
        """Able to answer truthfully: see `service.replica.vitals`."""
        health = self._cache.node_health()
        bounds = (self._settings.staleness_ms, self._settings.canary_ms)
        reasons = health.reasons(*bounds)
        try:
            follower: dict[str, int] | None = self._follower.counters()
        except Unavailable:
            follower = None
        return {
            "ready": not reasons,
            "reasons": reasons,
            "warnings": health.warnings(*bounds),
            **health.body(),
            "follower": follower,
        }

    # --- inside

    def _was_brought(self, file: str) -> bool:
        """Whether a call that waited brought it here for this one; said once."""
        with self._lock:
            was = file in self._activated
            self._activated.discard(file)
            return was

    def _view(
        self, file: str, min_version: int | None, deadline: float
    ) -> tuple[ReplicaView, bool]:
        """The replica, brought here or forward when missing or behind; and whether it was missing.

        Raises:
            ReplicaBehind, Unavailable: see `FollowerClient.ensure`.
        """
        view = self._cache.view(file)
        if view is not None and (min_version is None or view.version >= min_version):
            return view, False
        left_ms = max(0, int((deadline - time.monotonic()) * 1000))
        if view is None:
            left_ms = min(left_ms, self._settings.activate_ms)
        try:
            self._follower.ensure(file, min_version or 0, deadline_ms=left_ms)
        except NotFound as error:
            # The registry, which came the same way, knows the tenant: its file is on its way.
            raise Unavailable("this tenant's file is not in the object store yet") from error
        latest = self._cache.view(file)
        if latest is None:
            raise Unavailable("this tenant's replica is being restored")
        if view is None:
            with self._lock:
                if len(self._activated) >= self._settings.open_tenants:
                    self._activated.clear()  # asked for and never opened
                self._activated.add(file)
        return latest, view is None

    def _young(self, view: ReplicaView, most_ms: int, deadline: float) -> ReplicaView:
        """The replica once what this node knows of it is young enough; it looks at once."""
        known = view
        while known.age_ms > most_ms:
            left_ms = int((deadline - time.monotonic()) * 1000)
            try:
                if left_ms <= 0:
                    raise Unavailable("there is no time left")
                self._follower.ensure(view.file, deadline_ms=left_ms, max_age_ms=most_ms)
            except Unavailable as error:
                raise ReplicaBehind(
                    f"what this node knows is {known.age_ms} ms old, {most_ms} ms was asked for",
                    version=known.version,
                    age_ms=known.age_ms,
                ) from error
            known = self._cache.view(view.file) or known
        return known

    def _hold(self, stack: ExitStack, view: ReplicaView) -> tuple[IndexReader, ReplicaView]:
        """Open the replica's current file and hold it; see `replica/cache.py` for the order."""
        for _ in range(ATTEMPTS):
            with ExitStack() as attempt:
                try:
                    reader = attempt.enter_context(self._pool.lend(view.path))
                    attempt.enter_context(reader.snapshot())
                except NotFound:
                    held = False  # replaced between the look and the open
                except IndexCorrupt:
                    # The follower looks for itself, and restores the replica when it is damaged.
                    self._follower.suspect(view.file, deadline_ms=self._settings.activate_ms)
                    held = False
                else:
                    held = self._cache.check_clean(view)
                if held:
                    stack.push(attempt.pop_all())
                    return reader, view
            self._pool.drop(view.path)
            latest = self._cache.view(view.file)
            if latest is None:
                raise Unavailable("this tenant's replica is being restored")
            self._report_missing(latest)
            view = latest
        raise Unavailable("this tenant's replica is being replaced")

    def _report_missing(self, view: ReplicaView) -> None:
        """A file that is registered and gone was removed by somebody else: it is restored."""
        if view.path.exists():
            return
        now = self._cache.view(view.file)
        if now is not None and now.path == view.path:
            self._follower.suspect(view.file, deadline_ms=self._settings.activate_ms)

    def _sweep(self) -> None:
        while not self._ending.wait(SWEEP_S):
            self._pool.sweep()
