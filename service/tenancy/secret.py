"""The secret that keys are hashed with at rest.

Every node that reads one registry needs the same secret: the writer makes it, readers are given a
copy. Whoever steals a registry file alone cannot test guesses against it.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from service.errors import SetupError

SECRET_BYTES = 32
"""256 bits: the block of HMAC-SHA-256 gains nothing from more (RFC 2104, section 3)."""


def load_or_create_secret(path: Path) -> bytes:
    """Read the secret, making a fresh one when there is no file yet.

    Two processes that start together end up with the same secret: the file appears whole or not
    at all, and the first one wins.

    Raises:
        SetupError: the file holds something else, can be read by others, or cannot be made.
    """
    if not path.exists():
        _create(path)
    return load_secret(path)


def load_secret(path: Path) -> bytes:
    """Read the secret of an existing file.

    Raises:
        SetupError: there is no such file, it holds something else, or others can read it.
    """
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
        secret = path.read_bytes()
    except OSError as error:
        raise SetupError(
            f"the key secret {path} cannot be read ({error.strerror})",
            hint="Copy the writer's secret file to this node; every node needs the same one.",
        ) from error
    if mode & 0o077:
        raise SetupError(
            f"the key secret {path} can be read by other users (mode {mode:04o})",
            hint=f"Run `chmod 600 {path}`.",
        )
    if len(secret) != SECRET_BYTES:
        raise SetupError(
            f"the key secret {path} holds {len(secret)} bytes instead of {SECRET_BYTES}",
            hint="Restore it from a backup: with another secret no existing key works.",
        )
    return secret


def _create(path: Path) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(secrets.token_bytes(SECRET_BYTES))
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, never replaces what another process just made.
            path.hardlink_to(draft)
        finally:
            draft.unlink()
    except FileExistsError:
        return
    except OSError as error:
        raise SetupError(
            f"the key secret {path} cannot be made ({error.strerror})",
            hint="Give this role a data folder it may write to.",
        ) from error
