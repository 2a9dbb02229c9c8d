"""A reader node's tenants: replicas that the follower keeps, brought here when first asked for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from service.errors import IndexCorrupt, NotFound, ReplicaBehind, Unavailable
from service.index.reader import IndexReader
from service.node.pool import ReaderPool
from service.replica import FollowerClient, ReplicaCache, ReplicaView
from service.settings import Settings

#: How often a replica that is replaced or half-written under our eyes is looked at again.
ATTEMPTS = 3


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedReplica:
    """A replica held still for one request; see `service.http.node.Opened`."""

    reader: IndexReader
    age_ms: int
    as_of_ms: int


class Replicas:
    """The files of one worker of a reader node. Safe to share among threads."""

    def __init__(self, cache: Path, settings: Settings) -> None:
        self._settings = settings
        self._cache = ReplicaCache(cache)
        self._follower = FollowerClient(cache)
        self._pool = ReaderPool.within(settings)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
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
        deadline = time.monotonic() + deadline_ms / 1000
        view = self._view(file, min_version, deadline)
        if max_staleness_ms is not None:
            view = self._young(view, max_staleness_ms, deadline)
        with ExitStack() as stack:
            reader, view = self._hold(stack, view)
            if min_version is not None and reader.version < min_version:
                raise ReplicaBehind(
                    f"this replica has version {reader.version}, {min_version} was asked for",
                    version=reader.version,
                    age_ms=view.age_ms,
                )
            self._cache.touch(view)
            yield OpenedReplica(reader, view.age_ms, view.as_of)

    def registry_path(self) -> Path:
        """Where the registry lies on this node.

        Raises:
            Unavailable: it is not here yet.
        """
        file = self._cache.registry_file()
        view = None if file is None else self._cache.view(file)
        if view is None:
            raise Unavailable("this node has no registry yet", retry_after_s=1)
        return view.path

    def registry_clean(self, path: Path) -> bool:
        """Whether the registry at this path is whole; asked while it is being read."""
        file = self._cache.registry_file()
        view = None if file is None else self._cache.view(file)
        return view is not None and view.path == path and self._cache.check_clean(view)

    def health(self) -> dict[str, Any]:
        """Able to answer truthfully: a live follower, fresh heads, a registry."""
        health = self._cache.node_health()
        reasons = []
        if not health.registry_resident:
            reasons.append("the registry is not here yet")
        bound = self._settings.staleness_ms
        if health.polled_age_ms is None or health.polled_age_ms > bound:
            reasons.append("the follower has not looked at the object store lately")
        if health.heads_age_ms is None or health.heads_age_ms > bound:
            reasons.append(f"nothing was published for more than {bound} ms")
        return {"ready": not reasons, "reasons": reasons, **dataclasses.asdict(health)}

    # --- inside

    def _view(self, file: str, min_version: int | None, deadline: float) -> ReplicaView:
        """The replica, brought here or forward when it is missing or behind."""
        view = self._cache.view(file)
        if view is not None and (min_version is None or view.version >= min_version):
            return view
        left_ms = max(0, int((deadline - time.monotonic()) * 1000))
        if view is None:
            left_ms = min(left_ms, self._settings.activate_ms)
        self._follower.ensure(file, min_version or 0, deadline_ms=left_ms)
        view = self._cache.view(file)
        if view is None:
            raise Unavailable("this tenant's replica is being restored")
        return view

    def _young(self, view: ReplicaView, most_ms: int, deadline: float) -> ReplicaView:
        """Wait until what this node knows is young enough."""
        pause = self._settings.poll_interval_ms / 4_000
        latest: ReplicaView | None = view
        while latest is None or latest.age_ms > most_ms:
            if time.monotonic() + pause >= deadline:
                known = latest or view
                raise ReplicaBehind(
                    f"what this node knows is {known.age_ms} ms old, {most_ms} ms was asked for",
                    version=known.version,
                    age_ms=known.age_ms,
                )
            time.sleep(pause)
            latest = self._cache.view(view.file)
        return latest

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
            view = latest
        raise Unavailable("this tenant's replica is being replaced")
