"""What the registry holds, as values."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

from service.tenancy.keys import Key


class TenantState(enum.StrEnum):
    """What a tenant may do."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETED = "deleted"


@dataclasses.dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant.

    Attributes:
        id: number within this registry.
        name: what people call it; unique.
        file: its index file's name, without suffix: 26 characters of base32, unguessable, never
            used again.
        epoch: grows when another writer takes the tenant over.
        state: active, suspended or deleted.
        created_at: ms since 1970.
    """

    id: int
    name: str
    file: str
    epoch: int
    state: TenantState
    created_at: int

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> Tenant:
        """From (id, name, file, epoch, state, created_at)."""
        return cls(row[0], row[1], row[2], row[3], TenantState(row[4]), row[5])


@dataclasses.dataclass(frozen=True, slots=True)
class KeyRecord:
    """What the registry knows of a key: everything but the key.

    Attributes:
        id: number within this registry.
        tenant: the tenant's name; None for a key of the whole deployment.
        scopes: what it may do, narrowest first.
        label: its owner's note.
        created_at: ms since 1970.
        expires_at: ms since 1970; None when it does not expire.
        revoked_at: ms since 1970; None while it works.
    """

    id: int
    tenant: str | None
    scopes: tuple[str, ...]
    label: str
    created_at: int
    expires_at: int | None
    revoked_at: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class NewKey:
    """A key just made: the only moment its text exists here."""

    key: Key
    record: KeyRecord


@dataclasses.dataclass(frozen=True, slots=True)
class Rewound:
    """A tenant's file that was, or would be, restored to an earlier moment.

    Attributes:
        tenant: its name.
        dry_run: nothing was changed.
        from_version: the version it had.
        version: the version it has since, or would have.
        at: the moment asked for, Unix ms.
        restored_to: the last batch it holds was committed then, Unix ms.
        restored_version: the version that batch made.
        documents: how many it holds.
        announced: readers are told; false when the store was too slow, it then follows.
    """

    tenant: str
    dry_run: bool
    from_version: int
    version: int
    at: int
    restored_to: int
    restored_version: int
    documents: int
    announced: bool
