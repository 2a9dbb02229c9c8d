"""The files of a folder, in a stable order."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path

from service.errors import SetupError
from service.sources.source import Skipped, Unit, signature


def units_of(
    root: Path, suffixes: tuple[str, ...], *, most_files: int, most_bytes: int
) -> Iterator[Unit | Skipped]:
    """A unit for each file below a folder, named by its path in it; hidden ones are left out.

    Links to folders are not followed. A file over `most_bytes` is skipped.

    Raises:
        SetupError: the folder cannot be read, or holds more than `most_files`.
    """
    if not root.is_dir():
        raise SetupError(f"{root} is not a folder", hint="Check the path.")
    troubles: list[OSError] = []
    count = 0
    for folder, names, files in os.walk(root, onerror=troubles.append):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            if name.startswith(".") or not name.lower().endswith(suffixes):
                continue
            count += 1
            if count > most_files:
                raise SetupError(
                    f"{root} holds more than {most_files} files",
                    hint="Sync its folders one by one, or raise MEMLANE_SYNC_FILES.",
                )
            path = Path(folder, name)
            yield _unit(root, path, most_bytes)
    for trouble in troubles:
        if trouble.filename == str(root):
            raise SetupError(f"{root} cannot be read ({trouble.strerror})")
        below = Path(trouble.filename or root).relative_to(root).as_posix()
        yield Skipped(f"{below}/", "", f"cannot be read ({trouble.strerror})")


def _unit(root: Path, path: Path, most_bytes: int) -> Unit | Skipped:
    name = path.relative_to(root).as_posix()
    try:
        name.encode()
    except UnicodeEncodeError:
        # The name as bytes shown is still its own, so what it held before is left alone.
        shown = name.encode("utf-8", "backslashreplace").decode()
        return Skipped(shown, "", "its name is not UTF-8")
    try:
        size = path.stat().st_size
        if size > most_bytes:
            return Skipped(name, "", f"larger than {most_bytes} bytes")
        return Unit(name, signature(path))
    except OSError as error:
        return Skipped(name, "", f"cannot be read ({error.strerror})")


def ref_of(name: str) -> str:
    """A file's name as every machine writes it: some store é as two characters."""
    return unicodedata.normalize("NFC", name)


def or_skipped(unit: Unit, read: Callable[[], bytes]) -> bytes | Skipped:
    """A file's bytes, or why it could not be read."""
    try:
        return read()
    except OSError as error:
        return Skipped(unit.name, "", f"cannot be read ({error.strerror})")
