"""`memlane golden ...`: arguments in, tables or one JSON object out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, TypeVar

import click

from golden import (
    ablation,
    compare,
    judged,
    lexicon,
    rescoring,
    runner,
    sidecars,
    tables,
    typing_speed,
)
from golden import cases as golden_cases
from golden import robustness as probing
from golden.answers import Backend
from golden.backends import InProcess, Remote
from golden.bench_commands import bench
from golden.options import (
    ErrorsShown,
    corpora_option,
    echo,
    first_option,
    folder_of,
    json_option,
    out,
    progress,
    set_option,
    sets_option,
)
from service.errors import SetupError

__all__ = ["bench", "golden"]

MODEL = "multilingual-e5-small"

Command = TypeVar("Command", bound=Callable[..., object])

bench.add_command(typing_speed.page_command)

_against = click.option(
    "--against",
    type=click.Path(path_type=Path),
    help="Report of an earlier run; exit 1 where this one is worse than the tolerance.",
)


def _server(command: Command) -> Command:
    key = click.option("--key", envvar="MEMLANE_KEY", help="API key [env: MEMLANE_KEY].")
    url = click.option("--url", help="Ask a server that holds the corpus instead of this process.")
    return url(key(command))


@click.group()
def golden() -> None:
    """Check what the search finds."""


@golden.command("cases")
@_server
@json_option
def cases_command(url: str | None, key: str | None, as_json: bool) -> None:
    """Run the golden cases over the demo memory."""
    with ErrorsShown():
        loaded = golden_cases.load()
        failures = []
        with _backend(golden_cases.DEMO_CORPUS, url, key) as backend:
            for case in loaded:
                failures += golden_cases.run(backend, case)
        report = golden_cases.report(loaded, failures)
    out(report, tables.cases(report), as_json=as_json)
    if failures:
        raise click.exceptions.Exit(1)


@golden.command("judged")
@sets_option
@corpora_option
@_server
@first_option
@_against
@json_option
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
    with ErrorsShown():
        folder = folder_of(corpora)
        baseline = None if against is None else compare.read(against)
        sets = {}
        for name in chosen or judged.names(folder):
            judged_set = judged.load(folder, name)
            with _backend(judged_set.corpus, url, key) as backend:
                sets[name] = runner.report(_with_progress(backend, judged_set, first))
            if not as_json:
                echo(tables.judged(name, sets[name]))
        report = {"sets": sets}
        _finish(report, baseline, (), as_json=as_json)


@golden.command("robustness")
@set_option
@corpora_option
@_against
@json_option
def robustness_command(
    name: str, corpora: Path | None, against: Path | None, as_json: bool
) -> None:
    """Rewrite a set's titles as people type them: is the document still among the first eight?"""
    with ErrorsShown():
        baseline = None if against is None else compare.read(against)
        corpus = judged.corpus_path(folder_of(corpora), name)
        documents = [lexicon.document(line) for line in judged.lines(corpus)]
        with InProcess(corpus) as backend:
            report = probing.run(backend, list(probing.probes(documents)))
        _finish(report, baseline, tables.robustness(report), as_json=as_json)


@golden.command("ablate")
@sets_option
@corpora_option
@first_option
@json_option
def ablate_command(
    chosen: tuple[str, ...], corpora: Path | None, first: int | None, as_json: bool
) -> None:
    """Run judged sets with each component of the score left out in turn."""
    with ErrorsShown():
        folder = folder_of(corpora)
        sets = {}
        for name in chosen or judged.names(folder):
            judged_set = judged.load(folder, name)
            count = len(judged_set.queries[:first]) * ablation.runs()
            with InProcess(judged_set.corpus) as backend, progress(name, count) as advance:
                sets[name] = ablation.run(backend, judged_set, first=first, progress=advance)
            if not as_json:
                echo(tables.ablation(name, sets[name]))
    out({"sets": sets}, (), as_json=as_json)


@golden.command("rescoring")
@click.option("--sets", "names", help="Judged sets, with commas between  [default: all].")
@corpora_option
@click.option("--embedder", envvar="MEMLANE_EMBEDDER", help="HOST:PORT of a running sidecar.")
@click.option("--model", default=MODEL, show_default=True, help="Without --embedder: start it.")
@click.option("--queries", default=rescoring.QUERIES, show_default=True, help="Of each set.")
@click.option("--candidates", default=rescoring.CANDIDATES, show_default=True, help="Embedded.")
@click.option("--passages", default=rescoring.PASSAGES, show_default=True, help="Of a document.")
@json_option
def rescoring_command(
    names: str | None,
    corpora: Path | None,
    embedder: str | None,
    model: str,
    queries: int,
    candidates: int,
    passages: int,
    as_json: bool,
) -> None:
    """Ask a sample of judged sets by keyword alone, then with the best candidates rescored."""
    with ErrorsShown(), ExitStack() as stack:
        folder = folder_of(corpora)
        chosen = names.split(",") if names else judged.names(folder)
        loaded = [judged.load(folder, name.strip()) for name in chosen]
        address = embedder or stack.enter_context(sidecars.running(model))
        made = stack.enter_context(rescoring.Embedder(address, rescoring.vector_folder()))
        report: dict[str, Any] = {"model": made.model, "sets": {}}
        for judged_set in loaded:
            with progress(judged_set.name, min(queries, len(judged_set.queries))) as advance:
                found = rescoring.run(
                    judged_set,
                    made,
                    queries=queries,
                    candidates=candidates,
                    passages_most=passages,
                    progress=advance,
                )
            report["sets"][judged_set.name] = found
            if not as_json:
                echo(tables.rescoring(judged_set.name, found))
    out(report, (), as_json=as_json)


def _backend(corpus: Path, url: str | None, key: str | None) -> Backend:
    if url is None:
        return InProcess(corpus)
    if key is None:
        raise SetupError("--url needs a key", hint="Give --key or set MEMLANE_KEY.")
    return Remote(url, key)


def _with_progress(
    backend: Backend, judged_set: judged.JudgedSet, first: int | None
) -> list[runner.Outcome]:
    with progress(judged_set.name, len(judged_set.queries[:first])) as advance:
        return runner.run_set(backend, judged_set, first=first, progress=advance)


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
    out(report, lines, as_json=as_json)
    if regressions:
        raise click.exceptions.Exit(1)
