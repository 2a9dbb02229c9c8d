"""The follower's own process: `python -m service.roles.follower`, options in `MEMLANE_FOLLOW`."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from pathlib import Path

from service.errors import MemlaneError, SetupError
from service.replica import Follower, FollowerServer, ReplicaCache, open_store
from service.replica.spans import spans
from service.settings import Settings
from service.telemetry.processes import observe_process
from service.telemetry.replicas import observe_follower
from service.telemetry.setup import METER_NAME, start_metrics, start_traces


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
        return _refused(error)
    signal.signal(signal.SIGTERM, lambda *_: follower.stop())
    signal.signal(signal.SIGINT, lambda *_: follower.stop())
    try:
        with (
            start_metrics("follower") as provider,
            start_traces("follower", settings, provider.get_meter(METER_NAME)) as (traces, _),
            FollowerServer(follower),
        ):
            meter = provider.get_meter(METER_NAME)
            spans.drawn_by(traces.get_tracer(METER_NAME))
            observe_process(meter)
            vitals = ReplicaCache(follower.cache).node_health
            observe_follower(meter, follower.counters, vitals)
            follower.run()
    except SetupError as error:
        return _refused(error)
    return 0


def _refused(error: MemlaneError) -> int:
    print(f"memlane: {error.detail}\n{error.hint}", file=sys.stderr)  # noqa: T201
    return 1


if __name__ == "__main__":
    sys.exit(main())
