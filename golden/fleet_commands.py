"""`memlane fleet ...`: arguments in, a table or one JSON object out."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from golden import judged, tables
from golden.options import (
    ErrorsShown,
    corpora_option,
    folder_of,
    json_option,
    out,
    set_option,
)
from service.errors import SetupError

_store_option = click.option(
    "--store",
    "kind",
    type=click.Choice(["s3", "folder"]),
    default="s3",
    show_default=True,
    help="A real S3-compatible server started for this run, or a folder.",
)


@click.group()
def fleet() -> None:
    """Start a fleet on this machine, drive it, break it, measure it."""


@fleet.command("scale")
@click.option("--tenants", type=click.IntRange(min=1), default=2_000, show_default=True)
@_store_option
@json_option
def fleet_scale(tenants: int, kind: str, as_json: bool) -> None:
    """Many small tenants on one writer and one reader: time, memory, open files."""
    with ErrorsShown():
        report = _part("scale").run(tenants, kind=kind, progress=_tell)
    out(report, _scale_table(report), as_json=as_json)


@fleet.command("cold")
@click.option("--mib", "sizes", type=click.IntRange(min=1), multiple=True, help="File size.")
@_store_option
@json_option
def fleet_cold(sizes: tuple[int, ...], kind: str, as_json: bool) -> None:
    """The first answer of a tenant that the reader does not hold."""
    with ErrorsShown():
        report = _part("cold").run(
            kind=kind, **({"sizes_mib": sizes} if sizes else {}), progress=_tell
        )
    out(report, tables.flat(report), as_json=as_json)


@fleet.command("lag")
@click.option("--tenants", type=click.IntRange(min=1), default=200, show_default=True)
@click.option("--seconds", type=click.FloatRange(min=1), default=30.0, show_default=True)
@_store_option
@json_option
def fleet_lag(tenants: int, seconds: float, kind: str, as_json: bool) -> None:
    """From an acknowledged write to its sight on another node."""
    with ErrorsShown():
        report = _part("lag").run(kind=kind, tenants=tenants, seconds=seconds, progress=_tell)
    out(report, tables.flat(report), as_json=as_json)


@fleet.command("chaos")
@click.option("--minutes", type=click.FloatRange(min=0.1), default=10.0, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--log",
    type=click.Path(path_type=Path, dir_okay=False),
    default="chaos.log",
    show_default=True,
    help="Where each event is written.",
)
@_store_option
@json_option
def fleet_chaos(minutes: float, seed: int, log: Path, kind: str, as_json: bool) -> None:
    """Break the fleet in every way, on a seed, while every answer is checked."""
    with ErrorsShown():
        report = _part("chaos").run(minutes=minutes, seed=seed, kind=kind, log=log, progress=_tell)
    out(report, tables.flat(report), as_json=as_json)


_model_option = click.option(
    "--model", default="use-multilingual-v3", show_default=True, help="A model folder, or its name."
)
_documents_option = click.option(
    "--documents", "documents_most", default=2_000, show_default=True, help="The set's first ones."
)


@fleet.command("semantic")
@set_option
@corpora_option
@_model_option
@_documents_option
@json_option
def fleet_semantic(
    name: str, corpora: Path | None, model: str, documents_most: int, as_json: bool
) -> None:
    """Fill a tenant with vectors, ask; kill and pause the sidecar; see it come back."""
    with ErrorsShown():
        judged_set = judged.load(folder_of(corpora), name)
        part = _part("semantic")
        report = part.run(judged_set, model, documents_most=documents_most, progress=_tell)
    out(report, tables.flat(report), as_json=as_json)


@fleet.command("backfill")
@set_option
@corpora_option
@_model_option
@click.option(
    "--documents", "documents_most", default=2_000, show_default=True, help="The set's first ones."
)
@json_option
def fleet_backfill(
    name: str, corpora: Path | None, model: str, documents_most: int, as_json: bool
) -> None:
    """Queries beside a busy sidecar, the backfill's rate, and what kills cost."""
    with ErrorsShown():
        judged_set = judged.load(folder_of(corpora), name)
        part = _part("backfill")
        report = part.run(judged_set, model, documents_most=documents_most, progress=_tell)
    out(report, tables.flat(report), as_json=as_json)


@fleet.command("states")
@click.option("--queries", type=click.IntRange(min=100), default=2_000, show_default=True)
@click.option("--model", help="A model folder, or its name.  [default: the tiny one, built here]")
@json_option
def fleet_states(queries: int, model: str | None, as_json: bool) -> None:
    """Do bodies, headers, spans and counters say the same of every query, whatever breaks?"""
    with ErrorsShown():
        report = _part("states").run(queries, model=model, progress=_tell)
    out(report, tables.flat(report), as_json=as_json)


@fleet.command("telemetry")
@set_option
@corpora_option
@click.option(
    "--documents", "documents_most", default=12_000, show_default=True, help="The set's first ones."
)
@json_option
def fleet_telemetry(name: str, corpora: Path | None, documents_most: int, as_json: bool) -> None:
    """CPU of a query with telemetry off, on, and on with a collector that is not there."""
    with ErrorsShown():
        judged_set = judged.load(folder_of(corpora), name)
        part = _part("telemetry")
        report = part.run(judged_set, documents_most=documents_most, progress=_tell)
    out(report, tables.flat(report), as_json=as_json)


@fleet.command("incident")
@click.option("--model", help="A model folder, or its name.  [default: the tiny one, built here]")
@click.option("--prometheus", "program", help="The program.  [default: the one installed]")
@json_option
def fleet_incident(model: str | None, program: str | None, as_json: bool) -> None:
    """Kill the sidecar, stop Litestream: how soon are the alerts of a real Prometheus true?"""
    with ErrorsShown():
        part = _part("incident")
        report = part.run(model=model, program=program, progress=_tell)
    out(report, part.table(report), as_json=as_json)


def _scale_table(report: dict[str, Any]) -> Iterator[str]:
    processes = report["processes"]
    yield from tables.flat({name: value for name, value in report.items() if value != processes})
    yield f"{'process':<28}{'MiB':>10}{'files':>10}{'idle CPU %':>12}"
    for one in processes:
        yield (
            f"{one['name']:<28}{one['memory_mib']:>10}{one['files']:>10}{one['cpu_percent']:>12}"
        )


def _part(name: str) -> Any:
    """A module of `golden.fleet`, whose needs are an extra of their own."""
    try:
        return importlib.import_module(f"golden.fleet.{name}")
    except ModuleNotFoundError as error:
        raise SetupError(
            f"{error.name} is not installed", hint="pip install 'memlane[fleet]'"
        ) from error


def _tell(text: str) -> None:
    click.echo(text, err=True)
