"""This run against an earlier one, class by class, with a stated tolerance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from service.errors import SetupError

MEASURES = ("recall10", "mrr10", "ndcg10", "top1", "at1", "at8", "mrr")
SET_DROP_MAX = 0.005
"""A set's mean may fall this far (half a point) before it counts as a regression."""
CLASS_DROP_MAX = 0.02
CLASS_QUERIES_MAX = 1.5
"""A class's mean may fall by `CLASS_DROP_MAX` or by this many queries' worth, whichever is more:
in a class of 20 queries one flip is five points, and one flip is noise."""

Where = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Difference:
    """One measure of one set or class, before and after.

    Attributes:
        path: where it stands, e.g. `("mem12k", "typo")`.
        tolerance: the fall that is still allowed.
    """

    path: Where
    measure: str
    before: float
    after: float
    tolerance: float

    @property
    def change(self) -> float:
        """After minus before."""
        return self.after - self.before

    @property
    def regressed(self) -> bool:
        """Whether it fell by more than the tolerance."""
        return self.change < -self.tolerance - 1e-9


def read(path: Path) -> dict[str, Any]:
    """A report written by `--json`: the last line of the file that is a JSON object.

    Raises:
        SetupError: the file cannot be read or holds no report.
    """
    try:
        text = path.read_bytes().strip()
    except OSError as error:
        raise SetupError(f"{path} cannot be read: {error}") from error
    for candidate in (text, text.rsplit(b"\n", 1)[-1]):
        try:
            report = orjson.loads(candidate)
        except orjson.JSONDecodeError:
            continue
        if isinstance(report, dict) and any(figures(report)):
            return report
    raise SetupError(f"{path} is not a report", hint="Write one with --json.")


def figures(report: Mapping[str, Any], path: Where = ()) -> Iterator[tuple[Where, dict[str, Any]]]:
    """Every object of a report that has `n` and a measure, with its path.

    The levels named `sets` and `classes` are left out of paths.
    """
    if "n" in report and any(measure in report for measure in MEASURES):
        yield path, dict(report)
    for name, value in report.items():
        if isinstance(value, Mapping):
            yield from figures(value, path if name in ("sets", "classes") else (*path, name))


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Difference]:
    """All measures that both reports have; what only one has (a set not run) is left out.

    Raises:
        SetupError: nothing is shared, or a shared class was run over another number of queries.
    """
    earlier, found = dict(figures(before)), []
    for path, row in figures(after):
        if (old := earlier.get(path)) is None:
            continue
        if old["n"] != row["n"]:
            raise SetupError(
                f"{'/'.join(path)}: {old['n']} queries in the baseline, {row['n']} now",
                hint="Run with the baseline's --first and the same judged files.",
            )
        tolerance = _tolerance(path, after, row["n"])
        found += [
            Difference(path, measure, old[measure], row[measure], tolerance)
            for measure in MEASURES
            if measure in old and measure in row
        ]
    if not found:
        raise SetupError("the two reports share no set", hint="Compare reports of one command.")
    return found


def _tolerance(path: Where, report: Mapping[str, Any], n: int) -> float:
    if "sets" in report and len(path) == 1:
        return SET_DROP_MAX
    return max(CLASS_DROP_MAX, CLASS_QUERIES_MAX / n) if n else 0.0


def lines(found: list[Difference]) -> Iterator[str]:
    """What changed, readable: regressions are marked `!`, then a closing line."""
    changed = [difference for difference in found if abs(difference.change) >= 0.0005]
    for difference in changed:
        yield (
            f"{'!' if difference.regressed else ' '} {'/'.join(difference.path):<36}"
            f" {difference.measure:<9} {difference.before:.3f} -> {difference.after:.3f}"
            f"  {difference.change:+.3f}"
        )
    regressed = sum(difference.regressed for difference in found)
    yield (
        f"{regressed} regressions, {len(changed)} changes, {len(found)} figures compared"
        f" (allowed fall: {SET_DROP_MAX} a set,"
        f" {CLASS_DROP_MAX} or {CLASS_QUERIES_MAX} queries a class)"
    )
