"""`memlane push FILE.ndjson`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from memlane.shapes import Durability
from service.commands.console import (
    connection,
    data_option,
    errors_shown,
    json_option,
    result,
    say,
    service_options,
)
from service.sources.push import Pusher, Summary, batches, open_lines

REFUSED_SHOWN = 20


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@service_options
@data_option
@click.option("--keep-valid", is_flag=True, help="Keep the valid lines of a batch with bad ones.")
@click.option("--replicated", is_flag=True, help="Wait until the object store has each batch.")
@json_option
def push(
    file: Path,
    url: str | None,
    key: str | None,
    data: Path,
    keep_valid: bool,
    replicated: bool,
    as_json: bool,
) -> None:
    """Push documents, one JSON object a line, plain or gzip. Safe to repeat."""
    with errors_shown():
        url, key = connection(url, key, data, want="writer")
        summary = push_file(
            file,
            url,
            key,
            quiet=as_json,
            keep_valid=keep_valid,
            durability="replicated" if replicated else "local",
        )
    for line in summary.refused[:REFUSED_SHOWN]:
        say(f"  line {line['line']} refused: {line['error']}")
    told = {
        "counts": dict(summary.counts),
        "version": summary.version,
        "bytes_sent": summary.bytes_sent,
        "refused": summary.refused,
    }
    counts = ", ".join(f"{count} {name}" for name, count in sorted(summary.counts.items()))
    result(told, f"version {summary.version}: {counts or 'nothing to do'}", as_json=as_json)
    if summary.refused:
        raise click.exceptions.Exit(1)


def push_file(
    path: Path,
    url: str,
    key: str,
    *,
    quiet: bool,
    keep_valid: bool = False,
    durability: Durability = "local",
) -> Summary:
    """Push a file with a progress bar on stderr.

    Raises:
        SetupError, InvalidDocument, Unavailable: see `Pusher.push`.
    """
    summary = Summary()
    with open_lines(path) as lines:
        count = sum(1 for _ in lines)
    with (
        open_lines(path) as lines,
        Pusher(url, key, keep_valid=keep_valid, durability=durability) as pusher,
        click.progressbar(
            length=count, label=f"push {path.name}", file=sys.stderr, hidden=quiet, show_pos=True
        ) as bar,
    ):
        for batch in batches(lines):
            pusher.push(batch, summary)
            bar.update(len(batch.lines))
    return summary
