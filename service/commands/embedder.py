"""`memlane embedder`: becomes the sidecar's own process.

The sidecar shares no code with the service, so its command is its own: this one only hands the
arguments over, its options and help included.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from typing import NoReturn

import click

from service.commands.console import errors_shown
from service.errors import SetupError

NEEDED = ("grpc", "grpc_health", "grpc_reflection", "onnxruntime", "tokenizers")

#: Everything after the command's name is the sidecar's, `--help` too.
HANDED_OVER = {"ignore_unknown_options": True, "help_option_names": []}


@click.command(context_settings=HANDED_OVER, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def embedder(arguments: tuple[str, ...]) -> None:
    """Serve one embedding model over gRPC; needs the extra `embedder` or `embedder-gpu`."""
    with errors_shown():
        become("embedder", arguments, needed=NEEDED)


def become(module: str, arguments: tuple[str, ...], *, needed: tuple[str, ...]) -> NoReturn:
    """Replace this process by `python -m module`; signals reach it directly.

    Args:
        module: one of the sidecar's.
        arguments: its command line.
        needed: packages without which it cannot start.

    Raises:
        SetupError: a package is not installed.
    """
    missing = [name for name in needed if find_spec(name) is None]
    if missing:
        raise SetupError(
            f"{', '.join(missing)} is not installed",
            hint="Install an extra: `pip install 'memlane[embedder]'` for CPUs, or"
            " 'memlane[embedder-gpu]' (never both).",
        )
    command = [sys.executable, "-m", module, *arguments]
    if {"-h", "--help"} & set(arguments):
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        click.echo(told.stdout or told.stderr, nl=False)
        raise click.exceptions.Exit(told.returncode)
    sys.stdout.flush()
    os.execv(sys.executable, command)  # noqa: S606  # no shell
