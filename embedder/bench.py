"""`python -m embedder.bench`: what a model costs on this machine, as one table.

Each section runs in a process of its own, so that its peak memory is its own. Texts are token ids
of a given number; what they mean does not change what they cost.
"""

from __future__ import annotations

import json
import multiprocessing
import platform
import resource
import sys
import time
from array import array
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from itertools import product
from pathlib import Path
from statistics import quantiles
from typing import Any, Final

import click

from embedder.bench_served import served
from embedder.cache import locate
from embedder.catalog import read_spec
from embedder.console import errors_shown
from embedder.model import Model
from embedder.runtime import Device, cores, versions
from embedder.tokens import Tokens

QUERY_TOKENS: Final = (8, 16, 32, 64)
QUERY_BATCHES: Final = (1, 4)
PASSAGE_TOKENS: Final = (32, 128, 256, 512)
BATCHES: Final = (1, 8, 32)
MIXED_TEXTS: Final = 64
SHORTEST: Final = 8
LONGEST: Final = 256
RUNS_LEAST: Final = 5

Rows = list[dict[str, Any]]


def texts(count: int, tokens: int) -> list[Tokens]:
    """Texts of a given length: ids that every vocabulary has, different in each text."""
    return [
        Tokens(array("q", (5 + (n * 7 + place * 13) % 200 for place in range(tokens))), False)
        for n in range(count)
    ]


def mixed(limit: int) -> list[Tokens]:
    """Texts of mixed lengths, most of them short, in a mixed order; the same every time."""
    places = [(n * 37) % MIXED_TEXTS for n in range(MIXED_TEXTS)]  # 37 and 64 share no factor
    lengths = [SHORTEST + (LONGEST - SHORTEST) * place**2 // MIXED_TEXTS**2 for place in places]
    return [texts(1, min(limit, length))[0] for length in lengths]


def queries(model: Model, seconds: float) -> Rows:
    """Latency of a run of one query, and of four of one length, which wait for each other."""
    rows: Rows = []
    for tokens, batch in product(_within(QUERY_TOKENS, model), QUERY_BATCHES):
        spent = _repeat(partial(model.embed, texts(batch, tokens)), seconds)
        row = {"threads": model.runtime.threads, "tokens": tokens, "batch": batch}
        rows.append(row | {"runs": len(spent)} | _spread(spent))
    return rows


def passages(model: Model, seconds: float, lanes: int) -> Rows:
    """Passages a second, one a run, by length and lanes at once."""
    rows: Rows = []
    for tokens in _within(PASSAGE_TOKENS, model):
        [text] = texts(1, tokens)
        run = partial(model.embed, [text])
        with ThreadPoolExecutor(lanes) as pool:
            spent = list(pool.map(_repeat, [run] * lanes, [seconds] * lanes))
        rate = sum(len(lane) / sum(lane) for lane in spent)
        threads = model.runtime.threads
        rows.append({"lanes": lanes, "threads": threads, "tokens": tokens, "per_s": round(rate, 2)})
    return rows


def batches(model: Model, batch: int) -> Rows:
    """Texts a second over mixed lengths, in the order they came and sorted by length."""
    rows: Rows = []
    work = mixed(model.spec.window_tokens)
    for in_order in (False, True):
        ordered = sorted(work, key=len) if in_order else work
        runs = [ordered[at : at + batch] for at in range(0, len(ordered), batch)]
        model.embed(runs[-1])
        start = time.perf_counter()
        for run in runs:
            model.embed(run)
        rate = len(work) / (time.perf_counter() - start)
        positions = sum(len(run) * max(map(len, run)) for run in runs)
        padding = 1 - sum(map(len, work)) / positions
        row = {"batch": batch, "sorted": in_order, "per_s": round(rate, 2)}
        rows.append(row | {"padding_share": round(padding, 3)})
    return rows


def _within(lengths: Sequence[int], model: Model) -> list[int]:
    return sorted({min(length, model.spec.window_tokens) for length in lengths})


def _repeat(run: Callable[[], object], seconds: float) -> list[float]:
    """Run for a while; seconds of each run, the first two not counted."""
    run()
    run()
    spent: list[float] = []
    end = time.perf_counter() + seconds
    while len(spent) < RUNS_LEAST or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        spent.append(time.perf_counter() - start)
    return spent


def _spread(spent: list[float]) -> dict[str, float]:
    cuts = quantiles(spent, n=100, method="inclusive")
    return {"p50_ms": round(cuts[49] * 1_000, 2), "p99_ms": round(cuts[98] * 1_000, 2)}


SECTIONS: Final[dict[str, Callable[..., Rows]]] = {
    "queries": queries,
    "passages": passages,
    "batches": batches,
    "served": served,
}


def _section(
    name: str, folder: Path, device: Device, threads: int, arguments: tuple[Any, ...]
) -> tuple[Rows, dict[str, Any]]:
    """One section, in a process of its own."""
    model = Model(folder, device=device, threads=threads)
    rows: Rows = SECTIONS[name](model, *arguments)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
    for row in rows:
        row["peak_mib"] = round(peak)
    return rows, {
        "model": model.id,
        "provider": model.runtime.provider,
        "one_text_a_run": model.runtime.alone,
    }


def measure(folder: Path, *, device: Device, seconds: float) -> dict[str, Any]:
    """All sections.

    Args:
        folder: the model.
        device: where to run.
        seconds: how long to measure each cell.

    Returns:
        Rows by section, with what they were measured on.
    """
    count = cores()
    thread_counts = [1, 2] if count > 1 else [1]
    plan: list[tuple[str, int, tuple[Any, ...]]] = [
        ("queries", threads, (seconds,)) for threads in thread_counts
    ]
    plan += [("passages", threads, (seconds, 1)) for threads in thread_counts]
    plan += [("passages", 1, (seconds, count))] if count > 1 else []
    plan += [("batches", 1, (batch,)) for batch in BATCHES]
    plan += [("served", 1, (seconds, count))]
    found: dict[str, Any] = {"cores": count, "machine": platform.machine(), "versions": versions()}
    if not folder.is_dir():
        read_spec(folder)  # says what is missing, once
    spawn = multiprocessing.get_context("spawn")
    for name, threads, arguments in plan:
        with ProcessPoolExecutor(1, mp_context=spawn) as process:
            rows, told = process.submit(_section, name, folder, device, threads, arguments).result()
        found.update(told)
        found.setdefault(name, []).extend(rows)
        click.echo(f"{name}: {len(rows)} rows", err=True)
    return found


def table(found: dict[str, Any]) -> str:
    """The sections as Markdown tables."""
    lines = [f"{found['model']} on {found['provider']}, {found['cores']} cores"]
    for name in SECTIONS:
        rows = found[name]
        heads = list(rows[0])
        lines += ["", f"**{name}**", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
        lines += [f"| {' | '.join(str(row[head]) for head in heads)} |" for row in rows]
    return "\n".join(lines)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--model", default="multilingual-e5-small", show_default=True)
@click.option("--device", type=click.Choice(["auto", "cpu", "cuda"]), default="auto")
@click.option("--seconds", default=3.0, show_default=True, help="Time for each cell.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def main(model: str, device: Any, seconds: float, as_json: bool) -> None:
    """Measure a model on this machine: queries, passages, batches, the whole server."""
    with errors_shown():
        found = measure(locate(model), device=device, seconds=seconds)
    sys.stdout.write((json.dumps(found) if as_json else table(found)) + "\n")


if __name__ == "__main__":
    main(prog_name="python -m embedder.bench")
