"""The follower's own process: `python -m service.roles.follower`, options in `MEMLANE_FOLLOW`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path

from service.errors import MemlaneError
from service.replica import Follower, FollowerServer, open_store
from service.settings import Settings


def main() -> int:
    """Follow until SIGTERM."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    options = json.loads(os.environ["MEMLANE_FOLLOW"])
    try:
        settings = Settings.from_environment()
        follower = Follower(
            Path(options["cache"]),
            open_store(options["store"], settings),
            settings=settings,
            shards=options.get("shards", ()),
        )
    except MemlaneError as error:
        print(f"memlane: {error.detail}\n{error.hint}", file=sys.stderr)  # noqa: T201
        return 1
    signal.signal(signal.SIGTERM, lambda *_: follower.stop())
    signal.signal(signal.SIGINT, lambda *_: follower.stop())
    with FollowerServer(follower):
        follower.run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
