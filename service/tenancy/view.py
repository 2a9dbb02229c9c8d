"""Reading the registry: who holds this key?

Asked once a request, so it is cheap: one look at `meta.version`, and everything already known
stays valid until that changes. On a reader the file is a replica that may be replaced by a new
one, so its path is asked for each time.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import apsw

from service.errors import Forbidden, NotFound, TenantSuspended, Unauthorized, Unavailable
from service.index.connection import open_reader
from service.tenancy import keys
from service.tenancy.placements import Placement, read_placement, read_placements
from service.tenancy.records import Tenant, TenantState
from service.tenancy.registry import check_schema, now_ms, read_tenants

CACHED_KEYS: Final = 10_000
"""Most keys remembered, unknown ones too: those of a caller who guesses push each other out."""
CACHE_KIB: Final = 1_024
PATIENCE_MS: Final = 2_000
"""How long a caller that may block waits while the replica takes in a change."""

_LOOKUP = """
SELECT k.id, k.scopes, k.expires_at, k.revoked_at,
       t.id, t.name, t.file, t.epoch, t.state, t.created_at
FROM keys AS k LEFT JOIN tenants AS t ON t.id = k.tenant_id
WHERE k.hash = ?
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Grant:
    """What a valid key allows.

    Attributes:
        key_id: the key's number.
        scopes: what it may do, narrowest first.
        expires_at: ms since 1970; None when it does not expire.
        revoked: it was taken back.
        tenant: whose it is; None for a key of the whole deployment.
    """

    key_id: int
    scopes: tuple[str, ...]
    expires_at: int | None
    revoked: bool
    tenant: Tenant | None

    def require(self, scope: str) -> None:
        """Check a right.

        Raises:
            Forbidden: the key lacks it.
        """
        if scope not in self.scopes:
            raise Forbidden(
                f"this key lacks the scope {scope}",
                hint=f"Use a key with the scope {scope}; this one has {', '.join(self.scopes)}.",
            )


class RegistryBusy(Unavailable):
    """The replica is just taking in a change; asking with patience gets an answer."""


class RegistryView:
    """A read-only look at a registry. Safe to share among threads.

    Args:
        path: where the file is now; called once a request. Raises NotFound or Unavailable when
            there is none.
        secret: what keys are hashed with, see `tenancy/secret.py`.
        clean: asked once reading has begun, whether the file at this path is whole and still the
            one to read; a replica's follower may have died while writing it.
        clock_ms: ms since 1970.
    """

    def __init__(
        self,
        path: Callable[[], Path],
        secret: bytes,
        *,
        clean: Callable[[Path], bool] = lambda _: True,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        self._path = path
        self._clean = clean
        self._secret = secret
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._opened: tuple[Path, int] | None = None
        self._connection: apsw.Connection | None = None
        self._version = 0
        self._known: OrderedDict[bytes, Grant | None] = OrderedDict()

    def close(self) -> None:
        """Close the file; a later call opens it again."""
        with self._lock:
            self._forget()

    def authenticate(self, text: str, *, wait_ms: int = PATIENCE_MS) -> Grant:
        """The grant of a key that works now.

        Args:
            text: the key as its holder sent it.
            wait_ms: how long to wait for a busy file; 0 never blocks.

        Raises:
            RegistryBusy: the file is taking in a change for longer than that.
            Unauthorized: the key is malformed, unknown, expired or revoked, or its tenant is gone.
            TenantSuspended: its tenant is suspended.
            Unavailable: this node has no registry yet, or it is being replaced.
            IndexCorrupt: the file is not a registry.
            IndexTooNew: a later release wrote it.
        """
        return self.recognize(self.digest(text), wait_ms=wait_ms)

    def digest(self, text: str) -> bytes:
        """What the registry knows a key by, 32 bytes.

        Raises:
            Unauthorized: the key is malformed.
        """
        return keys.parse(text).digest(self._secret)

    def derived(self, purpose: str) -> bytes:
        """A secret of its own for one purpose, 32 bytes, the same on every node."""
        return hmac.digest(self._secret, b"purpose " + purpose.encode(), hashlib.sha256)

    def recognize(self, digest: bytes, *, wait_ms: int = PATIENCE_MS) -> Grant:
        """The grant of the key with this digest, as `authenticate` gives it.

        Raises:
            RegistryBusy, Unauthorized, TenantSuspended, Unavailable, IndexCorrupt, IndexTooNew: see
                `authenticate`.
        """
        grant = self._lookup(digest, wait_ms)
        if grant is None or grant.revoked:
            raise Unauthorized("this key does not exist or was revoked")
        if grant.expires_at is not None and grant.expires_at <= self._clock_ms():
            raise Unauthorized("this key has expired", hint="Ask for a new key.")
        if grant.tenant is not None:
            _check_tenant(grant.tenant)
        return grant

    def version(self) -> int:
        """The version of the registry at hand.

        Raises:
            Unavailable: this node has no registry yet.
        """
        with self._fresh(PATIENCE_MS) as (_, version):
            return version

    def tenants(self) -> list[Tenant]:
        """All tenants, deleted ones too, oldest first.

        Raises:
            Unavailable: this node has no registry yet.
        """
        with self._fresh(PATIENCE_MS) as (connection, _):
            return read_tenants(connection)

    def placements(self) -> tuple[int, list[Placement]]:
        """The registry's version, and where all tenants are by it.

        Raises:
            Unavailable: this node has no registry yet.
        """
        with self._fresh(PATIENCE_MS) as (connection, version):
            return version, read_placements(connection)

    def placement(self, file: str) -> Placement | None:
        """Where the tenant with this file is; None when there is no such tenant.

        Raises:
            Unavailable: this node has no registry yet.
        """
        with self._fresh(PATIENCE_MS) as (connection, _):
            return read_placement(connection, file)

    # --- inside

    def _lookup(self, digest: bytes, wait_ms: int) -> Grant | None:
        with self._fresh(wait_ms) as (connection, _):
            if digest in self._known:
                self._known.move_to_end(digest)
                return self._known[digest]
            grant = _read_grant(connection, digest)
            self._known[digest] = grant
            if len(self._known) > CACHED_KEYS:
                self._known.popitem(last=False)
            return grant

    @contextmanager
    def _fresh(self, wait_ms: int) -> Iterator[tuple[apsw.Connection, int]]:
        """The open file and its version, with a cache that fits it, under the lock."""
        if not self._lock.acquire(timeout=wait_ms / 1_000):
            raise RegistryBusy("the registry is busy on this node")
        try:
            path = self._path()
            connection = self._connection_to(path)
            connection.set_busy_timeout(wait_ms)
            with connection:  # one transaction: what is read belongs together
                version = connection.execute("SELECT value FROM meta WHERE key = 'version'").get
                if not self._clean(path):
                    raise NotFound(f"{path.name} is being replaced")
                if version != self._version:
                    self._known.clear()
                    self._version = version
                yield connection, version
        except apsw.BusyError as error:
            raise RegistryBusy("the registry is taking in a change on this node") from error
        except (NotFound, apsw.CantOpenError, apsw.CorruptError) as error:
            self._forget()
            raise Unavailable(
                "this node has no registry at hand", hint="It is being restored; retry shortly."
            ) from error
        finally:
            self._lock.release()

    def _connection_to(self, path: Path) -> apsw.Connection:
        try:
            identity = (path, path.stat().st_ino)
        except FileNotFoundError as error:
            raise NotFound(f"{path.name} is not on this node") from error
        if self._connection is None or self._opened != identity:
            self._forget()
            connection = open_reader(path, cache_kib=CACHE_KIB)
            try:
                check_schema(connection, path)
            except BaseException:
                connection.close()
                raise
            self._connection, self._opened = connection, identity
        return self._connection

    def _forget(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection, self._opened, self._version = None, None, 0
        self._known.clear()


def _read_grant(connection: apsw.Connection, digest: bytes) -> Grant | None:
    row: Any = connection.execute(_LOOKUP, (digest,)).fetchone()
    if row is None:
        return None
    key_id, scopes, expires_at, revoked_at = row[:4]
    tenant = None if row[4] is None else Tenant.from_row(row[4:])
    return Grant(key_id, tuple(scopes.split()), expires_at, revoked_at is not None, tenant)


def _check_tenant(tenant: Tenant) -> None:
    if tenant.state is TenantState.DELETED:
        raise Unauthorized("this key's tenant was deleted", hint="Ask for a new key.")
    if tenant.state is TenantState.SUSPENDED:
        raise TenantSuspended(f"tenant {tenant.name} is suspended")
