"""`memlane model build|check`: model folders for the sidecar, by its own command."""

from __future__ import annotations

import click

from service.commands.console import errors_shown
from service.commands.embedder import HANDED_OVER, become


@click.command(context_settings=HANDED_OVER, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def model(arguments: tuple[str, ...]) -> None:
    """Build and check model folders for `memlane embedder`."""
    with errors_shown():
        become("embedder.models", arguments, needed=("onnxruntime", "tokenizers"))
