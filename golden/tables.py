"""Reports as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from golden.runner import MEASURES

NAME_WIDTH = 28
QUALITY = ("recall10", "ndcg10", "mrr10")
CLOCK = ("p50", "p90", "p99")
COMING_SHOWN = 40
"""Most failures or misses printed; `--json` has all of them."""


def judged(name: str, report: Mapping[str, Any], *, classes: bool = True) -> Iterator[str]:
    """One set's report: the whole set first, then a line a class."""
    yield _row(name, "n", *MEASURES)
    yield _row("all", report["n"], *(report[m] for m in MEASURES))
    if classes and len(report["classes"]) > 1:
        for family, row in report["classes"].items():
            yield _row(f"  {family}", row["n"], *(row[m] for m in MEASURES))
    for clock in ("cpu_ms", "wall_ms"):
        if report[clock] is not None:
            yield f"  {clock} a query: {percentiles(report[clock])}"


def percentiles(values: Mapping[str, float]) -> str:
    """`p50 1.2  p90 3.4  p99 5.6`."""
    return "  ".join(f"{name} {value:.2f}" for name, value in values.items())


def robustness(report: Mapping[str, Any]) -> Iterator[str]:
    """A line a class, in percent."""
    yield _row("class", "n", "@1", "@8", "mrr")
    for family, row in report["classes"].items():
        yield _row(family, row["n"], *(100 * row[m] for m in ("at1", "at8", "mrr")), digits=1)


def cases(report: Mapping[str, Any]) -> Iterator[str]:
    """Every failure with its reason, then the counts."""
    failures: Sequence[Mapping[str, str]] = report["failures"]
    for failure in failures[:COMING_SHOWN]:
        yield f"FAILED {failure['id']}  [{failure['query']}]"
        yield f"       {failure['assertion']}: {failure['came_instead']}"
        yield f"       because: {failure['reason']}"
    if len(failures) > COMING_SHOWN:
        yield f"... and {len(failures) - COMING_SHOWN} more"
    for family, row in report["families"].items():
        yield f"{family:<{NAME_WIDTH}} {row['passed']:>4} of {row['n']}"
    yield f"{report['passed']} of {report['n']} cases pass"


def peers(name: str, reports: Mapping[str, Any]) -> Iterator[str]:
    """A line an engine: quality, then CPU a query in ms."""
    yield _row(name, "n", *QUALITY, *(f"cpu {p}" for p in CLOCK))
    for engine, report in reports.items():
        cpu_ms = report["cpu_ms"] or {}
        quality = (report[measure] for measure in QUALITY)
        yield _row(f"  {engine}", report["n"], *quality, *(cpu_ms.get(p, "-") for p in CLOCK))


def growth(report: Mapping[str, Any]) -> Iterator[str]:
    """A line a size, then how the p99 grew."""
    sizes = report["sizes"]
    yield from costs({f"{int(size):,} documents": row for size, row in sizes.items()})
    yield f"{'p99 growth':<{NAME_WIDTH}} {report['p99_growth']:.2f}x"


def costs(rows: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """A line a name: CPU in ms."""
    yield _row("CPU ms a query", *CLOCK)
    for name, row in rows.items():
        yield _row(name, *(row["cpu_ms"][p] for p in CLOCK), digits=2)


def ablation(name: str, report: Mapping[str, Any]) -> Iterator[str]:
    """A line a component: what is lost without it, in points of 100."""
    whole = report["all"]
    yield _row(name, "n", *QUALITY)
    yield _row("all", whole["n"], *(whole[measure] for measure in QUALITY))
    for component, row in report["without"].items():
        lost = (f"{100 * (row[m] - whole[m]):+.1f}" for m in QUALITY)
        yield _row(f"  without {component}", "", *lost)


def flat(report: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Any nested figures, one a line."""
    for name, value in report.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            shown = f"{value:,.2f}" if isinstance(value, float) else value
            yield f"{prefix + name:<{NAME_WIDTH}} {shown}"


def _row(name: str, *cells: object, digits: int = 3) -> str:
    shown = (f"{c:.{digits}f}" if isinstance(c, float) else str(c) for c in cells)
    return f"{name:<{NAME_WIDTH}}" + "".join(f"{cell:>10}" for cell in shown)


def rescoring(name: str, report: Mapping[str, Any]) -> Iterator[str]:
    """A set's nDCG@10 by keyword, rescored and the gain, then a line a class."""
    yield _row(name, "n", "keyword", "rescored", "gain")
    for family, row in {"all": report, **report["classes"]}.items():
        before, after = row["ndcg10_keyword"], row["ndcg10_rescored"]
        yield _row(f"  {family}", row["n"], before, after, round(after - before, 4))
