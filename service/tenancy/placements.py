"""Which shard's writer has a tenant's file, and which one it moves to; kept in the registry.

A tenant without a row here is on `MAIN`, whose writer has the registry too. The first row raises
the registry's schema number: an earlier release would take every tenant for its own, so it must
refuse. Until then earlier releases can be gone back to.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Any, Final

import apsw

from service.errors import Conflict, InvalidRequest
from service.tenancy.records import Tenant, TenantState
from service.tenancy.registry import SHARDED_SCHEMA, Registry, now_ms, read_tenant

MAIN: Final = "main"
SHARD: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,31}")
"""A shard's name."""

_ROWS = """
SELECT t.id, t.name, t.file, t.epoch, t.state, t.created_at, p.shard, p.moving_to, p.since
FROM tenants AS t LEFT JOIN placements AS p ON p.tenant_id = t.id
"""
_ROWS_BEFORE = """
SELECT t.id, t.name, t.file, t.epoch, t.state, t.created_at, NULL, NULL, NULL FROM tenants AS t
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Placement:
    """Where a tenant is.

    Attributes:
        tenant: the tenant.
        shard: whose writer has its file; during a move, the source.
        moving_to: the target of a move that is under way.
        since: when that was asked for, ms since 1970.
    """

    tenant: Tenant
    shard: str = MAIN
    moving_to: str | None = None
    since: int | None = None


def check_shard(name: str) -> str:
    """Return a shard's name if it is one.

    Raises:
        InvalidRequest: it is not.
    """
    if not SHARD.fullmatch(name):
        raise InvalidRequest(
            "a shard's name has 1 to 32 of a-z 0-9 _ - and starts with a letter or digit"
        )
    return name


def read_placements(connection: apsw.Connection) -> list[Placement]:
    """Where all tenants of an open registry are, deleted ones too, oldest first."""
    return [_placement(row) for row in connection.execute(f"{_rows(connection)}ORDER BY t.id")]


def read_placement(connection: apsw.Connection, file: str) -> Placement | None:
    """Where the tenant with this file is; None when there is no such tenant."""
    found = connection.execute(f"{_rows(connection)}WHERE t.file = ?", (file,)).fetchone()
    return None if found is None else _placement(found)


class Placements:
    """The registry's placements. Safe to share among threads."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def all(self) -> list[Placement]:
        """Where every tenant is."""
        with self._registry.reading() as connection:
            return read_placements(connection)

    def find(self, name: str) -> Placement:
        """Where a tenant is.

        Raises:
            NotFound: there is no such tenant.
        """
        with self._registry.reading() as connection:
            return _found(connection, name)

    def begin(self, name: str, to: str) -> Placement:
        """Note that a tenant is to move. Asked again, or where it is already: nothing changes.

        Raises:
            NotFound: there is no such tenant.
            Conflict: it is deleted, or moves somewhere else.
        """
        known = self.find(name)
        if known.tenant.state is TenantState.DELETED:
            raise Conflict(f"tenant {name} is deleted", hint="Create a new tenant.")
        if known.moving_to is not None and known.moving_to != to:
            raise Conflict(
                f"tenant {name} is moving to {known.moving_to}", hint="Retry when it is there."
            )
        if known.moving_to == to or known.shard == to:
            return known
        with self._registry.change() as connection:
            # Looked at once more: a deletion or another move may have begun.
            if _found(connection, name) != known:
                raise Conflict(f"tenant {name} changed just now", hint="Retry.")
            place(connection, known.tenant, known.shard, to, now_ms())
        return self.find(name)

    def arrive(self, known: Placement) -> None:
        """A move is done, if it is still the one under way: the target has the tenant from now."""
        with self._registry.change() as connection:
            if _found(connection, known.tenant.name) == known and known.moving_to is not None:
                place(connection, known.tenant, known.moving_to, None, None)


def place(
    connection: apsw.Connection,
    tenant: Tenant,
    shard: str,
    moving_to: str | None,
    since: int | None,
) -> None:
    """Write a tenant's row, in a change of the registry that is under way."""
    connection.execute(
        "INSERT INTO placements(tenant_id, shard, moving_to, since) VALUES (?, ?, ?, ?)"
        " ON CONFLICT(tenant_id) DO UPDATE SET shard = excluded.shard,"
        " moving_to = excluded.moving_to, since = excluded.since",
        (tenant.id, shard, moving_to, since),
    )
    connection.execute(
        "UPDATE meta SET value = max(value, ?) WHERE key = 'schema'", (SHARDED_SCHEMA,)
    )


def _rows(connection: apsw.Connection) -> str:
    return _ROWS if connection.table_exists(None, "placements") else _ROWS_BEFORE


def _found(connection: apsw.Connection, name: str) -> Placement:
    found = read_placement(connection, read_tenant(connection, name).file)
    assert found is not None
    return found


def _placement(row: Sequence[Any]) -> Placement:
    return Placement(Tenant.from_row(row[:6]), row[6] or MAIN, row[7], row[8])
