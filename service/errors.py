"""The tree of what can go wrong, one class a cause.

    MemlaneError
    ├── InvalidSetting                 start-up: a setting makes no sense
    ├── SetupError                     start-up: this machine lacks something; see `hint`
    ├── InvalidRequest                 the caller sent something we cannot read
    │   ├── InvalidDocument            one line of a batch
    │   ├── InvalidCursor
    │   └── TooLarge                   over a limit, which it names
    ├── Unauthorized  Forbidden        no key, a bad key / a key without the right
    │   └── TenantSuspended            the key is good, its tenant is suspended
    ├── NotFound                       tenant, document
    ├── Conflict                       idempotency key in flight or reused with another body
    ├── NotTheWriter                   another node takes writes of this; it may say which
    ├── ReplicaBehind                  older than `min_version` or `max_staleness_ms` allows
    ├── Unavailable                    try again: not restored yet, replication down, too busy
    ├── IndexFileError               the tenant's file
    │   ├── IndexTooNew                written by a later release; this one never touches it
    │   ├── IndexTooOld                written by an earlier release; its writer rebuilds it
    │   └── IndexCorrupt               failed its checks; it will be restored
    └── ReplicationError               Litestream, the object store, an LTX file

Each carries `detail` (what happened) and `hint` (what to do next). `http/problems.py` is the one
place that turns them into problem+json.
"""

from __future__ import annotations


class MemlaneError(Exception):
    """Base of all errors raised on purpose.

    Attributes:
        detail: what happened, one sentence, no document or query text.
        hint: what to do next, one sentence; empty when nothing can be done.
    """

    hint_default = ""

    def __init__(self, detail: str, *, hint: str | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.hint = self.hint_default if hint is None else hint


class InvalidSetting(MemlaneError):
    """A setting makes no sense."""

    hint_default = "docs/SETTINGS.md lists every setting with its unit."


class SetupError(MemlaneError):
    """The machine lacks something that this role needs."""


class InvalidRequest(MemlaneError):
    """The caller sent something that cannot be read."""


class InvalidDocument(InvalidRequest):
    """One line of a batch cannot be taken."""


class InvalidCursor(InvalidRequest):
    """The cursor is not one of ours, or belongs to another query."""

    hint_default = "Repeat the search without a cursor."


class TooLarge(InvalidRequest):
    """Something is over a limit.

    Attributes:
        limit: the setting's name.
    """

    def __init__(self, detail: str, *, limit: str, hint: str | None = None) -> None:
        super().__init__(detail, hint=hint)
        self.limit = limit


class Unauthorized(MemlaneError):
    """No key, or one that is not valid."""

    hint_default = "Send `Authorization: Bearer <key>`; `memlane key create` makes one."


class Forbidden(MemlaneError):
    """The key is valid and lacks the right."""

    hint_default = "Use a key with the scope named above."


class TenantSuspended(Forbidden):
    """The tenant is suspended; nothing of it is lost."""

    hint_default = "Ask the operator to resume the tenant."


class NotFound(MemlaneError):
    """No such tenant or document."""


class Conflict(MemlaneError):
    """An idempotency key is in flight, or came back with another body."""

    hint_default = "Use a new Idempotency-Key for a new request."


class NotTheWriter(MemlaneError):  # named like its siblings
    """This node does not take this write.

    Attributes:
        writer_url: where it is taken, when this node knows.
    """

    hint_default = "Send writes and administration to the writer node's address."

    def __init__(self, detail: str, *, writer_url: str | None) -> None:
        super().__init__(detail)
        self.writer_url = writer_url


class ReplicaBehind(MemlaneError):
    """This replica is older than the request allows.

    Attributes:
        version: the index version it has.
        age_ms: how old its knowledge is.
    """

    hint_default = "Retry shortly, or ask for less."

    def __init__(self, detail: str, *, version: int, age_ms: int, hint: str | None = None) -> None:
        super().__init__(detail, hint=hint)
        self.version = version
        self.age_ms = age_ms


class Unavailable(MemlaneError):
    """Cannot answer now; the same request may succeed later.

    Attributes:
        retry_after_s: seconds to wait.
    """

    hint_default = "Retry after the given seconds."

    def __init__(self, detail: str, *, retry_after_s: int = 1, hint: str | None = None) -> None:
        super().__init__(detail, hint=hint)
        self.retry_after_s = retry_after_s


class IndexFileError(MemlaneError):
    """A tenant's file cannot be used as it is."""


class IndexTooNew(IndexFileError):
    """Written by a later release."""

    hint_default = "Upgrade this node; it never writes a file newer than itself."


class IndexTooOld(IndexFileError):
    """Written by an earlier release."""

    hint_default = "Upgrade the writer and start it: it rebuilds the file at its next batch."


class IndexCorrupt(IndexFileError):
    """Failed its checks."""

    hint_default = "Readers restore it by themselves; on a writer see deploy/OPERATIONS.md."


class ReplicationError(MemlaneError):
    """Litestream, the object store or an LTX file."""
