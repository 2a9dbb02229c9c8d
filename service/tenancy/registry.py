"""The registry: which tenants there are, which file is whose, which key may do what.

One small SQLite file of the writer's, replicated like a tenant's: `meta` holds `version`, which
grows by one with every committed change, and `committed_at`. `RegistryView` reads it.
"""

from __future__ import annotations

import base64
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from service.errors import Conflict, IndexCorrupt, IndexTooNew, InvalidRequest, NotFound
from service.index.connection import open_writer
from service.tenancy.keys import check_scopes, mint
from service.tenancy.records import KeyRecord, NewKey, Tenant, TenantState

SCHEMA_VERSION: Final = 1
SHARDED_SCHEMA: Final = 2
"""Since the first tenant was placed on a shard of its own; see `tenancy/placements.py`."""

_SCHEMA = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value ANY) STRICT;
CREATE TABLE tenants(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  name TEXT NOT NULL UNIQUE,
  file TEXT NOT NULL UNIQUE,
  epoch INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'suspended', 'deleted')),
  created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE keys(
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  hash BLOB NOT NULL UNIQUE,
  tenant_id INTEGER REFERENCES tenants(id),
  scopes TEXT NOT NULL,
  label TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT;
CREATE INDEX keys_of_tenant ON keys(tenant_id);
"""
#: Added later; a reader never asks for it, so the schema's number stays.
_DELETIONS = """
CREATE TABLE IF NOT EXISTS deletions(
  tenant_id INTEGER PRIMARY KEY REFERENCES tenants(id),
  requested_at INTEGER NOT NULL,
  progress TEXT NOT NULL,
  receipt TEXT
) STRICT;
"""
_PLACEMENTS = """
CREATE TABLE IF NOT EXISTS placements(
  tenant_id INTEGER PRIMARY KEY REFERENCES tenants(id),
  shard TEXT NOT NULL,
  moving_to TEXT,
  since INTEGER
) STRICT;
"""

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
LABEL_CHARS: Final = 100
TENANT_KEYS: Final = 1_000
"""Most keys of one tenant that are neither revoked nor expired."""


def now_ms() -> int:
    """The wall clock, ms since 1970."""
    return time.time_ns() // 1_000_000


class Registry:
    """The registry's one writer. Safe to share among threads.

    Args:
        path: the file; made when it is not there.
        secret: what keys are hashed with, see `tenancy/secret.py`.
        clock_ms: ms since 1970.
        changed: called after each committed change, so that it gets replicated.

    Raises:
        IndexCorrupt: the file is something else.
        IndexTooNew: a later release wrote it.
    """

    def __init__(
        self,
        path: Path,
        secret: bytes,
        *,
        clock_ms: Callable[[], int] = now_ms,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.path = path
        self._changed = changed
        self._secret = secret
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._connection = open_writer(path)
        # The write lock is taken at once: no change fails half-way because of another writer.
        self._connection.transaction_mode = "IMMEDIATE"
        try:
            self._prepare()
        except BaseException:
            self._connection.close()
            raise

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def __enter__(self) -> Registry:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def version(self) -> int:
        """How many changes this registry has seen."""
        with self._lock:
            return _meta(self._connection, "version")

    # --- tenants

    def create_tenant(
        self,
        name: str,
        *,
        also: Callable[[apsw.Connection, Tenant], None] = lambda _, __: None,
    ) -> Tenant:
        """Add an active tenant with a fresh file name.

        Args:
            name: what people call it.
            also: what is written about it in the same transaction.

        Raises:
            InvalidRequest: the name has characters it may not have.
            Conflict: the name is taken, now or by a deleted tenant.
        """
        if not _NAME.fullmatch(name):
            raise InvalidRequest(
                "a tenant's name has 1 to 63 of a-z 0-9 . _ - and starts with a letter or digit"
            )
        row = (name, new_file_name(), 1, TenantState.ACTIVE.value, self._clock_ms())
        with self.change() as connection:
            if connection.execute("SELECT 1 FROM tenants WHERE name = ?", (name,)).fetchone():
                raise Conflict(f"there is a tenant {name} already", hint="Choose another name.")
            connection.execute(
                "INSERT INTO tenants(name, file, epoch, state, created_at) VALUES (?, ?, ?, ?, ?)",
                row,
            )
            made = read_tenant(connection, name)
            also(connection, made)
            return made

    def set_state(self, name: str, state: TenantState) -> Tenant:
        """Suspend, reactivate or delete a tenant. A deleted one never comes back.

        Raises:
            NotFound: there is no such tenant.
            Conflict: it is deleted.
        """
        with self.change() as connection:
            if read_tenant(connection, name).state is TenantState.DELETED:
                raise Conflict(f"tenant {name} is deleted", hint="Create a new tenant.")
            connection.execute("UPDATE tenants SET state = ? WHERE name = ?", (state.value, name))
            return read_tenant(connection, name)

    def advance_epoch(self, name: str) -> Tenant:
        """Give the tenant's replica a new prefix, which fences off an old writer.

        Raises:
            NotFound: there is no such tenant.
        """
        with self.change() as connection:
            read_tenant(connection, name)
            connection.execute("UPDATE tenants SET epoch = epoch + 1 WHERE name = ?", (name,))
            return read_tenant(connection, name)

    def tenant(self, name: str) -> Tenant:
        """One tenant.

        Raises:
            NotFound: there is no such tenant.
        """
        with self._lock:
            return read_tenant(self._connection, name)

    def tenants(self) -> list[Tenant]:
        """All tenants, deleted ones too, oldest first."""
        with self._lock:
            return read_tenants(self._connection)

    # --- keys

    def create_key(
        self,
        tenant: str | None,
        scopes: Iterable[str],
        *,
        label: str = "",
        expires_at: int | None = None,
    ) -> NewKey:
        """Make a key for a tenant, or for the deployment (`tenant` is None, scope `operator`).

        Raises:
            InvalidRequest: scopes, label or expiry make no sense.
            NotFound: there is no such tenant.
            Conflict: the tenant is deleted or has too many keys.
        """
        scopes = check_scopes(scopes)
        now = self._clock_ms()
        _check_key(tenant, scopes, label, expires_at, now)
        key = mint(scopes)
        with self.change() as connection:
            tenant_id = None if tenant is None else self._owner(connection, tenant, now)
            connection.execute(
                "INSERT INTO keys(hash, tenant_id, scopes, label, created_at, expires_at)"
                " VALUES (?, ?, ?, ?, ?, ?)",
                (key.digest(self._secret), tenant_id, " ".join(scopes), label, now, expires_at),
            )
            number = connection.last_insert_rowid()
        return NewKey(key, KeyRecord(number, tenant, scopes, label, now, expires_at, None))

    def revoke_key(self, number: int) -> None:
        """Stop a key from working. Revoking it again changes nothing.

        Raises:
            NotFound: there is no such key.
        """
        with self.change() as connection:
            connection.execute(
                "UPDATE keys SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?",
                (self._clock_ms(), number),
            )
            if connection.changes() == 0:
                raise NotFound(f"there is no key {number}")

    def keys(self, tenant: str | None) -> list[KeyRecord]:
        """The keys of a tenant, or of the deployment, oldest first.

        Raises:
            NotFound: there is no such tenant.
        """
        with self._lock:
            owner = None if tenant is None else read_tenant(self._connection, tenant).id
            rows: list[Any] = self._connection.execute(
                "SELECT id, scopes, label, created_at, expires_at, revoked_at"
                " FROM keys WHERE tenant_id IS ? ORDER BY id",
                (owner,),
            ).fetchall()
        return [KeyRecord(row[0], tenant, tuple(row[1].split()), *row[2:]) for row in rows]

    # --- inside

    def _owner(self, connection: apsw.Connection, name: str, now: int) -> int:
        tenant = read_tenant(connection, name)
        if tenant.state is TenantState.DELETED:
            raise Conflict(f"tenant {name} is deleted", hint="Create a new tenant.")
        live = connection.execute(
            "SELECT count(*) FROM keys WHERE tenant_id = ? AND revoked_at IS NULL"
            " AND coalesce(expires_at, ?) >= ?",
            (tenant.id, now, now),
        ).get
        if live >= TENANT_KEYS:
            raise Conflict(
                f"tenant {name} has {live} working keys", hint="Revoke those not in use."
            )
        return tenant.id

    def _prepare(self) -> None:
        connection = self._connection
        with self._lock, connection:
            if not connection.table_exists(None, "meta"):
                connection.execute(_SCHEMA + _DELETIONS + _PLACEMENTS)
                connection.executemany(
                    "INSERT INTO meta VALUES (?, ?)",
                    [
                        ("version", 1),
                        ("committed_at", self._clock_ms()),
                        ("schema", SCHEMA_VERSION),
                    ],
                )
                return
            check_schema(connection, self.path)
            connection.execute(_DELETIONS + _PLACEMENTS)

    @contextmanager
    def reading(self) -> Iterator[apsw.Connection]:
        """The connection, while nothing changes. For this package's own modules."""
        with self._lock:
            yield self._connection

    @contextmanager
    def change(self) -> Iterator[apsw.Connection]:
        """One transaction, which bumps the version; an error leaves everything as it was.

        For this package's own modules.
        """
        with self._lock, self._connection as connection:
            yield connection
            connection.execute("UPDATE meta SET value = value + 1 WHERE key = 'version'")
            connection.execute(
                "UPDATE meta SET value = ? WHERE key = 'committed_at'", (self._clock_ms(),)
            )
        self._changed()


def new_file_name() -> str:
    """128 random bits as 26 lower-case base32 characters (RFC 4648)."""
    return base64.b32encode(secrets.token_bytes(16)).decode("ascii").rstrip("=").lower()


def check_schema(connection: apsw.Connection, path: Path) -> None:
    """Refuse a registry that this release cannot read.

    Raises:
        IndexCorrupt: it is not a registry.
        IndexTooNew: a later release wrote it.
    """
    if not connection.table_exists(None, "tenants"):
        raise IndexCorrupt(f"{path.name} is not a registry")
    schema = _meta(connection, "schema")
    if schema > SHARDED_SCHEMA:
        raise IndexTooNew(
            f"{path.name} has registry schema {schema}, this release {SHARDED_SCHEMA}"
        )


def read_tenants(connection: apsw.Connection) -> list[Tenant]:
    """All tenants of an open registry, oldest first."""
    rows = connection.execute(
        "SELECT id, name, file, epoch, state, created_at FROM tenants ORDER BY id"
    )
    return [Tenant.from_row(row) for row in rows]


def _meta(connection: apsw.Connection, key: str) -> int:
    value = connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).get
    if not isinstance(value, int):
        raise IndexCorrupt(f"the registry's {key} is missing")
    return value


def read_tenant(connection: apsw.Connection, name: str) -> Tenant:
    """One tenant of an open registry.

    Raises:
        NotFound: there is no such tenant.
    """
    row = connection.execute(
        "SELECT id, name, file, epoch, state, created_at FROM tenants WHERE name = ?", (name,)
    ).fetchone()
    if row is None:
        raise NotFound(f"there is no tenant {name}")
    return Tenant.from_row(row)


def _check_key(
    tenant: str | None, scopes: tuple[str, ...], label: str, expires_at: int | None, now: int
) -> None:
    if ("operator" in scopes) != (tenant is None):
        raise InvalidRequest(
            "the scope operator belongs to a key without a tenant, and only to one",
            hint="Name a tenant for search, sync and admin; name none for operator.",
        )
    if tenant is None and scopes != ("operator",):
        raise InvalidRequest("a key without a tenant has the scope operator alone")
    if len(label) > LABEL_CHARS or not label.isprintable():
        raise InvalidRequest(f"a label has at most {LABEL_CHARS} printable characters")
    if expires_at is not None and expires_at <= now:
        raise InvalidRequest("the key would have expired already")
