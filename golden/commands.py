"""`memlane golden ...` and `memlane bench ...`: arguments in, tables or one JSON object out."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import orjson

from golden import bench as benches
from golden import cases as golden_cases
from golden import compare, judged, lexicon, runner, tables
from golden import robustness as probing
from golden.answers import Backend
from golden.backends import InProcess, Remote
from service.errors import MemlaneError, SetupError

SET_DEFAULT = "mem12k"
CORPORA_PLACES = ("corpora", "shared/corpora", "../shared/corpora")
"""Where judged folders are looked for, from the working directory, when none is named."""

Command = TypeVar("Command", bound=Callable[..., object])

_corpora = click.option(
    "--corpora",
    type=click.Path(path_type=Path),
    envvar="MEMLANE_CORPORA",
    help="Folder of judged sets [default: MEMLANE_CORPORA, else ./corpora or shared/corpora].",
)
_set = click.option("--set", "name", default=SET_DEFAULT, show_default=True, help="Judged set.")
_first = click.option("--first", type=click.IntRange(min=1), help="Only the first N queries.")
_against = click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Report of an earlier run; exit 1 where this one is worse than the tolerance.",
)
_json = click.option("--json", "as_json", is_flag=True, help="One JSON object, last.")


def _server(command: Command) -> Command:
    key = click.option("--key", envvar="MEMLANE_KEY", help="API key [env: MEMLANE_KEY].")
    url = click.option("--url", help="Ask a server that holds the corpus instead of this process.")
    return url(key(command))


@click.group()
def golden() -> None:
    """Check what the search finds."""


@golden.command("cases")
@_server
@_json
def cases_command(url: str | None, key: str | None, as_json: bool) -> None:
    """Run the golden cases over the demo memory."""
    with _ErrorsShown():
        loaded = golden_cases.load()
        failures = []
        with _backend(golden_cases.DEMO_CORPUS, url, key) as backend:
            for case in loaded:
                failures += golden_cases.run(backend, case)
        report = golden_cases.report(loaded, failures)
    _out(report, tables.cases(report), as_json=as_json)
    if failures:
        raise click.exceptions.Exit(1)


@golden.command("judged")
@click.option("--set", "chosen", multiple=True, help="Judged set, repeatable [default: all].")
@_corpora
@_server
@_first
@_against
@_json
def judged_command(
    chosen: tuple[str, ...],
    corpora: Path | None,
    url: str | None,
    key: str | None,
    first: int | None,
    against: Path | None,
    as_json: bool,
) -> None:
    """Run judged sets: recall@10, MRR@10, nDCG@10, top-1 and CPU time, by class."""
    with _ErrorsShown():
        folder = _folder(corpora)
        baseline = None if against is None else compare.read(against)
        sets = {}
        for name in chosen or judged.names(folder):
            judged_set = judged.load(folder, name)
            with _backend(judged_set.corpus, url, key) as backend:
                sets[name] = runner.report(_with_progress(backend, judged_set, first))
            if not as_json:
                _echo(tables.judged(name, sets[name]))
        report = {"sets": sets}
        _finish(report, baseline, (), as_json=as_json)


@golden.command("robustness")
@_set
@_corpora
@_against
@_json
def robustness_command(
    name: str, corpora: Path | None, against: Path | None, as_json: bool
) -> None:
    """Rewrite a set's titles as people type them: is the document still among the first eight?"""
    with _ErrorsShown():
        baseline = None if against is None else compare.read(against)
        corpus = judged.corpus_path(_folder(corpora), name)
        documents = [lexicon.document(line) for line in judged.lines(corpus)]
        with InProcess(corpus) as backend:
            report = probing.run(backend, list(probing.probes(documents)))
        _finish(report, baseline, tables.robustness(report), as_json=as_json)


@click.group()
def bench() -> None:
    """Measure what indexing and searching cost."""


@bench.command("index")
@_set
@_corpora
@_json
def bench_index(name: str, corpora: Path | None, as_json: bool) -> None:
    """Documents and characters per CPU second, bytes a document, an unchanged re-push."""
    with _ErrorsShown():
        report = benches.index(judged.corpus_path(_folder(corpora), name))
    _out(report, tables.flat(report), as_json=as_json)


@bench.command("query")
@_set
@_corpora
@_first
@_json
def bench_query(name: str, corpora: Path | None, first: int | None, as_json: bool) -> None:
    """CPU and wall time a query over a judged set's queries."""
    with _ErrorsShown():
        judged_set = judged.load(_folder(corpora), name)
        with InProcess(judged_set.corpus) as backend:
            report = benches.query(backend, judged_set, first=first)
    _out(report, tables.flat(report), as_json=as_json)


class _ErrorsShown:
    """Turns our own errors into click's: what happened, what to do, exit 1, no traceback."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, MemlaneError):
            raise click.ClickException(f"{error.detail}. {error.hint}".strip()) from error


def _backend(corpus: Path, url: str | None, key: str | None) -> Backend:
    if url is None:
        return InProcess(corpus)
    if key is None:
        raise SetupError("--url needs a key", hint="Give --key or set MEMLANE_KEY.")
    return Remote(url, key)


def _folder(named: Path | None) -> Path:
    if named is not None:
        return named
    for place in CORPORA_PLACES:
        if Path(place).is_dir():
            return Path(place)
    raise SetupError("no judged folder found", hint="Give --corpora or set MEMLANE_CORPORA.")


def _with_progress(
    backend: Backend, judged_set: judged.JudgedSet, first: int | None
) -> list[runner.Outcome]:
    count = len(judged_set.queries[:first])
    # stdout is for the report alone
    with click.progressbar(length=count, label=judged_set.name, file=sys.stderr) as bar:
        return runner.run_set(backend, judged_set, first=first, progress=lambda: bar.update(1))


def _finish(
    report: dict[str, Any],
    baseline: Mapping[str, Any] | None,
    lines: Iterable[str],
    *,
    as_json: bool,
) -> None:
    """Print a report and its differences to the baseline; exit 1 on a regression."""
    found = [] if baseline is None else compare.differences(baseline, report)
    regressions = [difference for difference in found if difference.regressed]
    if baseline is not None:
        report["regressions"] = [
            {"path": "/".join(d.path), "measure": d.measure, "before": d.before, "after": d.after}
            for d in regressions
        ]
        lines = [*lines, *compare.lines(found)]
    _out(report, lines, as_json=as_json)
    if regressions:
        raise click.exceptions.Exit(1)


def _out(report: Mapping[str, Any], lines: Iterable[str], *, as_json: bool) -> None:
    if as_json:
        click.echo(orjson.dumps(report).decode())
    else:
        _echo(lines)


def _echo(lines: Iterable[str]) -> None:
    for line in lines:
        click.echo(line)
