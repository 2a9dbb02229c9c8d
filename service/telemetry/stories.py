"""The story of one search: what it went through, and how long each part took. Never what it asked.

The last ones are kept, under their request ids; those that were slow or degraded longer than
others, because ordinary ones do not push them out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import apsw
import orjson

from service.semantic.state import SemanticOutcome, SemanticReason, SemanticState

SCHEMA: Final = """
CREATE TABLE stories(
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    tenant TEXT NOT NULL,
    notable INTEGER NOT NULL,
    body BLOB NOT NULL
);
CREATE INDEX stories_by_id ON stories(id);
CREATE INDEX stories_by_ring ON stories(notable, number);
CREATE INDEX stories_by_tenant ON stories(tenant, notable, number);
"""
_COLUMNS: Final = "id, at_ms, tenant, notable, body"


@dataclasses.dataclass(frozen=True, slots=True)
class Phase:
    """A part of a search.

    Attributes:
        name: which.
        begin_ms: when it first began, since the request came.
        took_ms: how long it took in all.
    """

    name: str
    begin_ms: float
    took_ms: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    """One answered search.

    Attributes:
        id: the request's.
        at_ms: when it came, ms since 1970.
        tenant: the tenant's name.
        outcome: its semantic outcome.
        took_ms: milliseconds by phase; `total` among them.
        begin_ms: when work on it began, since it came: it had waited for a place until then.
        temperature: how the tenant's file came to it: hot, warm or cold.
        version: of the index it was answered from.
        documents: how many that holds.
        age_ms: how old that was.
        cpu_ms: what it cost, in CPU time of its thread.
        trace: the id of its trace, 32 hex digits; empty when it was not traced.
    """

    id: str
    at_ms: int
    tenant: str
    outcome: SemanticOutcome
    took_ms: Mapping[str, float]
    begin_ms: float
    temperature: str
    version: int
    documents: int
    age_ms: int
    cpu_ms: float
    trace: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Story:
    """A kept search.

    Attributes:
        id: the request's.
        at_ms: when it came, ms since 1970.
        tenant: the tenant's name.
        notable: it was slow, or degraded against anybody's wish.
        facts: `state`, `reason`, `model`, `coverage`, `temperature`, `version`, `documents`,
            `age_ms`, `cpu_ms`, `total_ms`, `trace`, `role`.
        phases: its parts, in the order in which they began.
    """

    id: str
    at_ms: int
    tenant: str
    notable: bool
    facts: dict[str, Any]
    phases: tuple[Phase, ...]


def degraded(outcome: SemanticOutcome) -> bool:
    """Whether the lane was wanted and did not answer.

    What is off by choice (`disabled`, or asked so) or of no use (an identifier, no candidates) is
    not a degradation.
    """
    return (
        outcome.state in (SemanticState.COLD, SemanticState.TIMEOUT)
        or outcome.reason is SemanticReason.CIRCUIT_OPEN
    )


def is_notable(searched: Searched, slow_ms: float) -> bool:
    """Whether a search is kept longer than others."""
    return searched.took_ms["total"] >= slow_ms or degraded(searched.outcome)


def laid_out(searched: Searched) -> tuple[Phase, ...]:
    """Its phases one after another: that is how one thread goes through them."""
    begin_ms, phases = searched.begin_ms, []
    if begin_ms > 0:
        phases.append(Phase("wait", 0.0, round(begin_ms, 3)))
    for name, spent_ms in searched.took_ms.items():
        if name not in ("total", "wait"):
            phases.append(Phase(name, round(begin_ms, 3), round(spent_ms, 3)))
            begin_ms += spent_ms
    return tuple(phases)


def keep(connection: apsw.Connection, role: str, ring: Iterable[tuple[Searched, bool]]) -> None:
    """Add stories, in a transaction that is under way.

    Args:
        connection: the file's.
        role: `reader` or `writer`.
        ring: (search, notable), oldest first.
    """
    connection.executemany(
        f"INSERT INTO stories({_COLUMNS}) VALUES (?, ?, ?, ?, ?)",
        [
            (each.id, each.at_ms, each.tenant, int(notable), _body(each, role))
            for each, notable in ring
        ],
    )


def trim(connection: apsw.Connection, *, ordinary: int, notable: int, since_ms: int) -> None:
    """Forget the oldest of each ring, and all from before a moment."""
    for kept, flag in ((ordinary, 0), (notable, 1)):
        connection.execute(
            "DELETE FROM stories WHERE notable = ? AND number <= ("
            "SELECT number FROM stories WHERE notable = ? ORDER BY number DESC LIMIT 1 OFFSET ?)",
            (flag, flag, kept),
        )
    connection.execute("DELETE FROM stories WHERE at_ms < ?", (since_ms,))


def find(connection: apsw.Connection, request_id: str) -> Story | None:
    """The last story under this id, if it is still kept."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM stories WHERE id = ? ORDER BY number DESC LIMIT 1", (request_id,)
    ).fetchall()
    return _story(rows[0]) if rows else None


def latest(connection: apsw.Connection, *, tenant: str | None, limit: int) -> list[Story]:
    """The last notable stories, newest first, of one tenant or of all."""
    where, values = ("", ()) if tenant is None else ("tenant = ? AND ", (tenant,))
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM stories WHERE {where}notable = 1 ORDER BY number DESC LIMIT ?",
        (*values, limit),
    )
    return [_story(row) for row in rows]


def _body(searched: Searched, role: str) -> bytes:
    return orjson.dumps(
        {
            "facts": {
                **searched.outcome.body(),
                "temperature": searched.temperature,
                "version": searched.version,
                "documents": searched.documents,
                "age_ms": searched.age_ms,
                "cpu_ms": round(searched.cpu_ms, 3),
                "total_ms": round(searched.took_ms["total"], 3),
                "trace": searched.trace,
                "role": role,
            },
            "phases": [[each.name, each.begin_ms, each.took_ms] for each in laid_out(searched)],
        }
    )


def _story(row: Sequence[Any]) -> Story:
    request_id, at_ms, tenant, notable, body = row
    told = orjson.loads(body)
    phases = tuple(Phase(*each) for each in told["phases"])
    return Story(request_id, at_ms, tenant, bool(notable), told["facts"], phases)
