"""How a writer of another shard than `main` knows the registry: it follows it, as a reader does."""

from __future__ import annotations

import json
import os
import sys

from service.replica import Child
from service.roles.folders import Folders
from service.settings import Settings
from service.tenancy.placements import MAIN


def registry_follower(folders: Folders, store: str, settings: Settings) -> Child:
    """A child that follows the shard with the registry; it is not started yet."""
    folders.registry.mkdir(parents=True, exist_ok=True)
    follow = {"cache": str(folders.registry), "store": store, "shards": [MAIN]}
    return Child(
        "follower",
        [sys.executable, "-m", "service.roles.follower"],
        log=folders.registry / "follower.log",
        backoff_ms=settings.child_backoff_ms,
        environ=os.environ | {"MEMLANE_FOLLOW": json.dumps(follow)},
    )
