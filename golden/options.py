"""What the commands share: options, errors as sentences, the report on stdout."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import orjson

from service.errors import MemlaneError, SetupError

SET_DEFAULT = "mem12k"
CORPORA_PLACES = ("corpora", "shared/corpora", "../shared/corpora")
"""Where judged folders are looked for, from the working directory, when none is named."""

corpora_option = click.option(
    "--corpora",
    type=click.Path(path_type=Path),
    envvar="MEMLANE_CORPORA",
    help="Folder of judged sets [default: MEMLANE_CORPORA, else ./corpora or shared/corpora].",
)
set_option = click.option(
    "--set", "name", default=SET_DEFAULT, show_default=True, help="Judged set."
)
first_option = click.option("--first", type=click.IntRange(min=1), help="Only the first N queries.")
sets_option = click.option(
    "--set", "chosen", multiple=True, help="Judged set, repeatable [default: all]."
)
json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object, last.")


class ErrorsShown:
    """Turns our own errors into click's: what happened, what to do, exit 1, no traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemlaneError):
            raise click.ClickException(f"{error.detail}. {error.hint}".strip()) from error


def folder_of(named: Path | None) -> Path:
    """The judged folder: the one named, else one found.

    Raises:
        SetupError: there is none.
    """
    if named is not None:
        return named
    for place in CORPORA_PLACES:
        if Path(place).is_dir():
            return Path(place)
    raise SetupError("no judged folder found", hint="Give --corpora or set MEMLANE_CORPORA.")


@contextmanager
def progress(label: str, length: int) -> Iterator[Callable[[int], None]]:
    """A progress line on stderr (stdout is for the report alone); called with each advance."""
    with click.progressbar(length=length, label=label, file=sys.stderr) as bar:
        yield bar.update


def out(report: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    """Print a report: one JSON object, or its lines."""
    if as_json:
        click.echo(orjson.dumps(report).decode())
    else:
        echo(lines)


def echo(lines: Iterable[str]) -> None:
    """Print lines."""
    for line in lines:
        click.echo(line)
