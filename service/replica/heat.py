"""Which resident tenants are kept up at every look, and how long the others may stay behind. Pure.

A worker notes each use of a replica (`ReplicaCache.touch`). One used within `hot_ms` is hot. The
longer ago its last use is, the longer an idle one is left alone: a quarter of that time, up to
`idle_catch_up_ms`. Its `age_ms` grows meanwhile, and a query that minds has it brought up at once.
"""

from __future__ import annotations

from service.settings import Settings

IDLE_PART = 4


def pause_ms(idle_ms: float, settings: Settings) -> float:
    """How long after its last catching up a replica may stay behind; 0 for a hot one."""
    if idle_ms <= settings.hot_ms:
        return 0.0
    return min(idle_ms / IDLE_PART, settings.idle_catch_up_ms)
