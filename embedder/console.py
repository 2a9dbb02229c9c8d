"""What the commands share: errors as two lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import click

from embedder.errors import EmbedderError


@contextmanager
def errors_shown() -> Iterator[None]:
    """Turn our errors into two lines on stderr and exit status 1."""
    try:
        yield
    except EmbedderError as error:
        click.echo(f"memlane: {error.detail}", err=True)
        if error.hint:
            click.echo(f"  {error.hint}", err=True)
        raise click.exceptions.Exit(1) from None
