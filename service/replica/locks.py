"""One process a folder: a lock file that the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from service.errors import SetupError


class FolderLock:
    """Exclusive use of a folder for as long as this object is open.

    Raises:
        SetupError: another process has it, or the folder cannot be written.
    """

    def __init__(self, path: Path, *, what: str) -> None:
        """Take the lock at `path`; `what` names the folder's use in the error."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("a")
        except OSError as error:
            raise SetupError(f"cannot write {path.parent}: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise SetupError(
                f"another process uses {path.parent} as {what}",
                hint="Stop it first, or give this one a folder of its own.",
            ) from error
        os.truncate(self._file.fileno(), 0)
        self._file.write(f"{os.getpid()}\n")
        self._file.flush()

    def close(self) -> None:
        """Let the next one in."""
        self._file.close()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
