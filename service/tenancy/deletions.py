"""Deletions of tenants, kept in the registry until for ever: how far each got, and its receipt.

A deletion begins with one transaction: the tenant's state says `deleted`, so its keys stop, and a
row here says that its data are still to be removed. Whoever owns the registry goes on with that
until the row has a receipt, across crashes and takeovers. The name stays taken, so that the receipt
can be read under it and a name never means two tenants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import apsw
import orjson

from service.tenancy.placements import Placement
from service.tenancy.records import Tenant, TenantState
from service.tenancy.registry import Registry, now_ms, read_tenant

_ROWS = """
SELECT t.id, t.name, t.file, t.epoch, t.state, t.created_at, d.requested_at, d.progress, d.receipt
FROM tenants AS t JOIN deletions AS d ON d.tenant_id = t.id
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Deletion:
    """One tenant's deletion.

    Attributes:
        tenant: whose, in the state `deleted`.
        requested_at: ms since 1970.
        progress: what was removed so far, for whoever goes on with it.
        receipt: what was removed in all; None while something may be left.
    """

    tenant: Tenant
    requested_at: int
    progress: dict[str, Any]
    receipt: dict[str, Any] | None


@dataclasses.dataclass(frozen=True, slots=True)
class Status:
    """A tenant as its operator sees it.

    Attributes:
        tenant: what the registry says.
        deletion: its deletion, if it was asked for.
        trouble: why the deletion is not done, if an attempt failed.
        placement: which shard it is on.
    """

    tenant: Tenant
    deletion: Deletion | None = None
    trouble: str | None = None
    placement: Placement | None = None


class Deletions:
    """The registry's deletions. Safe to share among threads."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def begin(self, name: str, progress: dict[str, Any]) -> Deletion:
        """Stop a tenant's keys for good and note that its data must go.

        Beginning it again changes nothing.

        Args:
            name: the tenant's.
            progress: what is known of the tenant before anything is removed.

        Raises:
            NotFound: there is no such tenant.
        """
        if (known := self.find(name)) is not None:
            return known
        with self._registry.change() as connection:
            tenant = read_tenant(connection, name)
            connection.execute(
                "UPDATE tenants SET state = ? WHERE id = ?", (TenantState.DELETED.value, tenant.id)
            )
            connection.execute(
                "INSERT OR IGNORE INTO deletions(tenant_id, requested_at, progress)"
                " VALUES (?, ?, ?)",
                (tenant.id, now_ms(), _json(progress)),
            )
            return _deletion(connection, name)

    def note(self, name: str, progress: dict[str, Any]) -> None:
        """Keep how far a deletion got."""
        self._set(name, "progress", progress)

    def finish(self, name: str, receipt: dict[str, Any]) -> None:
        """Nothing is left: keep the receipt."""
        self._set(name, "receipt", receipt)

    def find(self, name: str) -> Deletion | None:
        """A tenant's deletion; None when it was not asked for.

        Raises:
            NotFound: there is no such tenant.
        """
        with self._registry.reading() as connection:
            read_tenant(connection, name)
            row: Any = connection.execute(_ROWS + "WHERE t.name = ?", (name,)).fetchone()
        return None if row is None else _from_row(row)

    def all(self) -> list[Deletion]:
        """All deletions, in the order they were asked for."""
        return self._select("")

    def pending(self) -> list[Deletion]:
        """Those without a receipt."""
        return self._select("WHERE d.receipt IS NULL ")

    def _select(self, where: str) -> list[Deletion]:
        with self._registry.reading() as connection:
            rows: list[Any] = connection.execute(
                f"{_ROWS}{where}ORDER BY d.requested_at, t.id"
            ).fetchall()
        return [_from_row(row) for row in rows]

    def _set(self, name: str, column: str, value: dict[str, Any]) -> None:
        with self._registry.change() as connection:
            tenant = read_tenant(connection, name)
            connection.execute(
                f"UPDATE deletions SET {column} = ? WHERE tenant_id = ?", (_json(value), tenant.id)
            )


def _deletion(connection: apsw.Connection, name: str) -> Deletion:
    row: Any = connection.execute(_ROWS + "WHERE t.name = ?", (name,)).fetchone()
    return _from_row(row)


def _from_row(row: Sequence[Any]) -> Deletion:
    receipt = None if row[8] is None else orjson.loads(row[8])
    return Deletion(Tenant.from_row(row[:6]), row[6], orjson.loads(row[7]), receipt)


def _json(value: dict[str, Any]) -> str:
    return orjson.dumps(value).decode()
