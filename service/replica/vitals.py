"""How a reader node is, for `readyz`: its follower, its shards, its canaries, its troubles.

A node is ready when it can answer truthfully for *some* of its tenants: it has a registry, its
follower looks at the store, and at least one shard is heard of and its canary arrives. One writer
that is down, or one tenant that cannot be restored, must not take every reader out of service: it
is a warning here, and its tenants' answers say their age.
"""

from __future__ import annotations

import dataclasses
from typing import Any

from service.replica.freshness import now_ms

SHARDS_SQL = """
SELECT s.name, s.as_of_ms, s.polled_ms, c.arrived_ms
FROM shard s LEFT JOIN canary c ON c.shard = s.name ORDER BY s.name
"""
REPLICAS_SQL = """
SELECT count(*), total(bytes), total(checked = 0),
       (SELECT count(*) FROM replica r JOIN shard s ON s.registry = r.file)
FROM replica
"""
TROUBLES_SQL = "SELECT cause, count(*), min(since_ms) FROM trouble GROUP BY cause ORDER BY cause"


@dataclasses.dataclass(frozen=True, slots=True)
class ShardHealth:
    """One shard as this node hears of it; ages in milliseconds.

    Attributes:
        name: the shard.
        heads_age_ms: age of its newest heads.
        polled_age_ms: when the follower last looked, successfully.
        canary_age_ms: when its last canary arrived; None when none ever did.
    """

    name: str
    heads_age_ms: int
    polled_age_ms: int
    canary_age_ms: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class NodeHealth:
    """What `readyz` asks of a reader node; times in milliseconds, None while nothing is known.

    Attributes:
        heads_age_ms: age of the newest heads, of the shard where they are oldest.
        polled_age_ms: when the follower last looked at the shard that it looked at longest ago.
        canary_age_ms: when the last canary arrived, of the shard where that is longest ago.
        registry_resident: keys can be checked here.
        replicas: resident files.
        replica_bytes: their size.
        unchecked: those whose full check is still to come.
        stuck: by cause, how many files cannot be brought up, and for how long the first of them.
        shards: each of them.
    """

    heads_age_ms: int | None
    polled_age_ms: int | None
    canary_age_ms: int | None
    registry_resident: bool
    replicas: int
    replica_bytes: int
    unchecked: int
    stuck: dict[str, tuple[int, int]]
    shards: tuple[ShardHealth, ...]

    def ready(self, staleness_ms: int, canary_ms: int | None = None) -> bool:
        """Can this node answer truthfully: a live follower, fresh heads, a registry?"""
        return not self.reasons(staleness_ms, canary_ms)

    def reasons(self, staleness_ms: int, canary_ms: int | None = None) -> list[str]:
        """Why it is not ready; empty when it is.

        Args:
            staleness_ms: the greatest age of heads and looks.
            canary_ms: the greatest age of a canary's last arrival; None for any.
        """
        reasons = []
        if not self.registry_resident:
            reasons.append("the registry is not here yet")
        if all(shard.polled_age_ms > staleness_ms for shard in self.shards):
            reasons.append("the follower has not looked at the object store lately")
        if all(shard.heads_age_ms > staleness_ms for shard in self.shards):
            reasons.append(f"nothing was published for more than {staleness_ms} ms")
        if self.shards and all(_late(shard, canary_ms) for shard in self.shards):
            reasons.append(f"no canary arrived for more than {canary_ms} ms")
        return reasons

    def warnings(self, staleness_ms: int, canary_ms: int | None = None) -> list[str]:
        """What is wrong with parts of it."""
        warnings = []
        for shard in self.shards:
            if shard.heads_age_ms > staleness_ms:
                warnings.append(f"shard {shard.name} published nothing for {shard.heads_age_ms} ms")
            if _late(shard, canary_ms):
                warnings.append(f"the canary of shard {shard.name} is late")
        for cause, (count, for_ms) in self.stuck.items():
            warnings.append(f"{count} tenants cannot be brought up ({cause}), for {for_ms} ms")
        return warnings

    def body(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        stuck = {
            cause: {"tenants": count, "for_ms": for_ms}
            for cause, (count, for_ms) in self.stuck.items()
        }
        return dataclasses.asdict(self) | {"stuck": stuck}


NOTHING_KNOWN = NodeHealth(None, None, None, False, 0, 0, 0, {}, ())


def health(shards: list[Any], replicas: Any, troubles: list[Any]) -> NodeHealth:
    """From the rows of the three queries above."""
    now = now_ms()
    found = tuple(
        ShardHealth(
            name, _age(now, as_of), _age(now, polled), None if at is None else _age(now, at)
        )
        for name, as_of, polled, at in shards
    )
    count, size, unchecked, registries = replicas
    return NodeHealth(
        heads_age_ms=max((shard.heads_age_ms for shard in found), default=None),
        polled_age_ms=max((shard.polled_age_ms for shard in found), default=None),
        canary_age_ms=max(
            (shard.canary_age_ms for shard in found if shard.canary_age_ms is not None),
            default=None,
        ),
        registry_resident=registries > 0,
        replicas=count,
        replica_bytes=int(size),
        unchecked=int(unchecked),
        stuck={cause: (many, _age(now, since)) for cause, many, since in troubles},
        shards=found,
    )


def _late(shard: ShardHealth, canary_ms: int | None) -> bool:
    return (
        canary_ms is not None
        and shard.canary_age_ms is not None
        and shard.canary_age_ms > canary_ms
    )


def _age(now: float, moment: float) -> int:
    return max(0, round(now - moment))
