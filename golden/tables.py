"""Reports as text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from golden.runner import MEASURES

NAME_WIDTH = 28
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
