"""A day of a busy node's figures, made up: many tenants, hours with trouble, slow searches."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from service.semantic.state import SemanticOutcome, SemanticReason, SemanticState
from service.telemetry import stories
from service.telemetry.figures_cells import cells_of
from service.telemetry.figures_store import NODE, FiguresStore, Sum
from service.telemetry.stories import Searched

DAY_MIN: Final = 1_440
SEED: Final = 4
BATCH_MIN: Final = 60
BYTES_MOST: Final = 1 << 30
MINUTE_MS: Final = 60_000
STORIES: Final = 200

OK: Final = SemanticOutcome(SemanticState.OK, coverage=1.0, model="multilingual-e5-small@1")
LATE: Final = SemanticOutcome(SemanticState.TIMEOUT, SemanticReason.DEADLINE, OK.model)
OPEN: Final = SemanticOutcome(SemanticState.SKIPPED, SemanticReason.CIRCUIT_OPEN, OK.model)
NAMES: Final = SemanticOutcome(SemanticState.SKIPPED, SemanticReason.IDENTIFIER_QUERY, OK.model)
NEW: Final = SemanticOutcome(SemanticState.COLD, SemanticReason.BACKFILL_PENDING, OK.model)


def fill(path: Path, now_ms: int, *, tenants: int, active: float = 0.06) -> int:
    """Write a day that ends now.

    Args:
        path: the file of figures.
        now_ms: ms since 1970.
        tenants: how many.
        active: share of the tenants that ask something in a minute.

    Returns:
        how many searches it holds.
    """
    chance = random.Random(SEED)  # noqa: S311  (chance, not secrets)
    last = now_ms // MINUTE_MS
    count = 0
    with FiguresStore(path) as store:
        for first in range(last - DAY_MIN + 1, last + 1, BATCH_MIN):
            with store.change():
                for minute in range(first, min(first + BATCH_MIN, last + 1)):
                    count += _minute(store, minute, last - minute, chance, tenants, active)
                store.tidy(minute, minutes=DAY_MIN, most_bytes=BYTES_MOST)
        with store.change():
            told = ((each, True) for each in _stories(now_ms, chance, tenants))
            stories.keep(store.connection, "reader", told)
    return count


def _minute(
    store: FiguresStore, minute: int, ago: int, chance: random.Random, tenants: int, active: float
) -> int:
    total, sums, count = Sum(), {}, 0
    for number in chance.sample(range(tenants), int(tenants * active)):
        found = Sum(documents=1_000 + number, version=ago + 1)
        for _ in range(chance.randrange(1, 6)):
            outcome = _outcome(ago, chance)
            spent = chance.lognormvariate(1.8, 0.6) + (60 if outcome is LATE else 0)
            took = {"total": spent, "wait": 0.1, "lanes": spent * 0.6, "score": spent * 0.2}
            age_ms = int(chance.lognormvariate(5.5, 0.5)) + (15_000 if 500 < ago < 530 else 0)
            heat = chance.choices(("hot", "warm", "cold"), (90, 8, 2))[0]
            pair = (outcome.state.value, outcome.reason.value if outcome.reason else "")
            np.add.at(found.counts, cells_of(pair, heat, took, age_ms), 1)
            found.cpu_us += int(spent * 700)
            found.age_ms = max(found.age_ms, age_ms)
            count += 1
        sums[minute, store.tenant_id(_name(number), minute, tenants + 1)] = found
        total.add(found)
    total.documents = total.version = 0
    store.merge(sums | {(minute, NODE): total})
    return count


def _outcome(ago: int, chance: random.Random) -> SemanticOutcome:
    if 200 < ago < 240:  # the sidecar hung
        return chance.choices((LATE, OPEN, NAMES), (10, 75, 15))[0]
    return chance.choices((OK, NAMES, NEW, LATE), (80, 15, 4, 1))[0]


def _name(number: int) -> str:
    return f"team-{number:04}"


def _stories(now_ms: int, chance: random.Random, tenants: int) -> Iterator[Searched]:
    for number in range(STORIES, 0, -1):
        spent = chance.uniform(150, 400)
        yield Searched(
            id=f"{chance.getrandbits(128):032x}",
            at_ms=now_ms - number * 20_000,
            tenant=_name(chance.randrange(tenants)),
            outcome=LATE,
            took_ms={
                "lanes": spent * 0.2,
                "score": spent * 0.1,
                "semantic": spent * 0.6,
                "snippets": spent * 0.08,
                "total": spent,
            },
            begin_ms=spent * 0.02,
            temperature="hot",
            version=7,
            documents=1_200,
            age_ms=180,
            cpu_ms=spent * 0.3,
            trace=f"{chance.getrandbits(128):032x}",
        )
