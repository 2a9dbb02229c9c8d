"""`memlane bench ...`: arguments in, tables or one JSON object out."""

from __future__ import annotations

from pathlib import Path

import click

from golden import bench as benches
from golden import growth, heavy, judged, lexicon, rescore_cost, syncing, tables, upserts
from golden.backends import InProcess
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
from golden.peers import run as peers_run
from golden.peers.engine import MissingPackage

BIG_SET = "mem100k"
_big_set = click.option("--set", "name", default=BIG_SET, show_default=True, help="Judged set.")


@click.group()
def bench() -> None:
    """Measure what indexing and searching cost."""


@bench.command("index")
@set_option
@corpora_option
@json_option
def bench_index(name: str, corpora: Path | None, as_json: bool) -> None:
    """Documents and characters per CPU second, bytes a document, an unchanged re-push."""
    with ErrorsShown():
        report = benches.index(judged.corpus_path(folder_of(corpora), name))
    out(report, tables.flat(report), as_json=as_json)


@bench.command("query")
@set_option
@corpora_option
@first_option
@json_option
def bench_query(name: str, corpora: Path | None, first: int | None, as_json: bool) -> None:
    """CPU and wall time a query over a judged set's queries."""
    with ErrorsShown():
        judged_set = judged.load(folder_of(corpora), name)
        with InProcess(judged_set.corpus) as backend:
            report = benches.query(backend, judged_set, first=first)
    out(report, tables.flat(report), as_json=as_json)


@bench.command("peers")
@sets_option
@corpora_option
@first_option
@json_option
def bench_peers(
    chosen: tuple[str, ...], corpora: Path | None, first: int | None, as_json: bool
) -> None:
    """Quality and CPU a query beside bm25s, tantivy and SQLite FTS5, on the same queries."""
    with ErrorsShown():
        folder = folder_of(corpora)
        absent: dict[str, MissingPackage] = {}
        sets = {}
        for name in chosen or judged.names(folder):
            judged_set = judged.load(folder, name)
            with progress(name, len(judged_set.queries[:first])) as advance:
                sets[name] = peers_run.run(
                    judged_set,
                    first=first,
                    peers=peers_run.PEERS,
                    missing=absent.setdefault,
                    progress=advance,
                )
            if not as_json:
                echo(tables.peers(name, sets[name]))
    for peer, error in absent.items():
        click.echo(f"{peer} is left out: {error.detail}. {error.hint}", err=True)
    out({"sets": sets}, (), as_json=as_json)


@bench.command("growth")
@_big_set
@corpora_option
@click.option(
    "--sizes",
    default=",".join(map(str, growth.SIZES)),
    show_default=True,
    callback=lambda _context, _option, given: _sizes(given),
    help="Documents, comma separated.",
)
@click.option("--first", type=click.IntRange(min=1), default=growth.QUERIES, show_default=True)
@json_option
def bench_growth(
    name: str, corpora: Path | None, sizes: list[int], first: int, as_json: bool
) -> None:
    """CPU a query by the size of the index; sizes above the corpus's repeat it, changed."""
    with ErrorsShown():
        judged_set = judged.load(folder_of(corpora), name)
        report = growth.run(
            judged_set,
            sizes,
            first=first,
            building=lambda size: progress(f"{size:,} documents", size),
        )
    out(report, tables.growth(report), as_json=as_json)


@bench.command("heavy")
@_big_set
@corpora_option
@json_option
def bench_heavy(name: str, corpora: Path | None, as_json: bool) -> None:
    """CPU of queries of 200 words, of one common word, and of 30 common words."""
    with ErrorsShown():
        corpus = judged.corpus_path(folder_of(corpora), name)
        made = heavy.loads([lexicon.document(line) for line in judged.documents(corpus)])
        with InProcess(corpus) as backend:
            report = heavy.run(backend, made)
    out(report, tables.costs(report["loads"]), as_json=as_json)


@bench.command("upsert")
@set_option
@corpora_option
@json_option
def bench_upsert(name: str, corpora: Path | None, as_json: bool) -> None:
    """CPU of changing one document of a full index, a commit each."""
    with ErrorsShown():
        report = upserts.run(judged.corpus_path(folder_of(corpora), name))
    out(report, tables.flat(report), as_json=as_json)


@bench.command("prefetch")
@click.option("--model", default="multilingual-e5-small", show_default=True, help="The sidecar's.")
@click.option("--calls", type=click.IntRange(min=1), default=1_000, show_default=True)
@click.option("--budget-ms", type=click.IntRange(min=50), default=300, show_default=True)
@json_option
def bench_prefetch(model: str, calls: int, budget_ms: int, as_json: bool) -> None:
    """Whether any prefetch is late, with the sidecar paused and tenants away; needs `fleet`."""
    with ErrorsShown():
        from golden import prefetching  # only here: it needs psutil

        report = prefetching.run(model=model, calls=calls, budget_ms=budget_ms, progress=_tell)
    out(report, tables.flat(report), as_json=as_json)


@bench.command("rescore")
@click.option("--candidates", type=click.IntRange(min=1), default=250, show_default=True)
@click.option("--passages", type=click.IntRange(min=1), default=8, show_default=True)
@click.option("--dims", type=click.IntRange(min=2), default=384, show_default=True)
@json_option
def bench_rescore(candidates: int, passages: int, dims: int, as_json: bool) -> None:
    """CPU of rescoring one search, and how exact its cosines are."""
    report = rescore_cost.run(candidates=candidates, passages=passages, dims=dims)
    out(report, tables.flat(report), as_json=as_json)


def _tell(text: str) -> None:
    click.echo(text, err=True)


@bench.command("sync")
@set_option
@corpora_option
@json_option
def bench_sync(name: str, corpora: Path | None, as_json: bool) -> None:
    """Bytes and seconds of a first sync, an unchanged one, 1% changed and 1% deleted."""
    with ErrorsShown(), progress("sync", 4) as advance:
        report = syncing.run(judged.corpus_path(folder_of(corpora), name), progress=advance)
    out(report, tables.flat(report), as_json=as_json)


def _sizes(given: str) -> list[int]:
    try:
        sizes = [int(size) for size in given.split(",")]
    except ValueError as error:
        raise click.BadParameter("whole numbers, comma separated") from error
    if min(sizes) < 1:
        raise click.BadParameter("at least 1 document")
    return sizes
