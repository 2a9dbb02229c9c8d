"""Golden cases: one query, what must come of it, and why. Cases are data, in `golden/cases/`.

A file holds a list of cases of one family. A document is named `kind:ref`. Assertions look at the
first `at` hits; ranks below that are fetched to `FETCHED` so that an order can be told.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from golden.answers import Answer, Backend
from service.errors import SetupError

HERE = Path(__file__).parent
CASES_FOLDER = HERE / "cases"
DEMO_CORPUS = HERE / "demo.ndjson"
AT_DEFAULT = 8
FETCHED = 50
SHOWN = 3
"""Hits named in a failure's "came instead"."""
COVERAGE = "coverage"
"""Name of the hit component that `min_coverage` is about: rarity-weighted term coverage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One golden case.

    Attributes:
        family: the file it stands in.
        kinds, updated_after: filters sent beside the query; the date is ISO, UTC.
        at: how deep the assertions look.
        must_include: all of these are among the first `at`.
        must_include_any: at least one is; empty asserts nothing.
        must_exclude: none is.
        top1, top1_kind: the first hit, its kind.
        must_rank_above: pairs; the first is found, and before the second if that is found.
        min_coverage: least coverage component of the best placed `must_include` (or first) hit.
        max_latency_ms: longest the search may take, wall clock.
        semantic_state: states allowed; checked where the backend reports one.
        reason: why a person expects this, one sentence.
        origin: what it comes from (a journey, a seed family, an incident).
    """

    id: str
    family: str
    query: str
    reason: str
    origin: str
    at: int = AT_DEFAULT
    kinds: tuple[str, ...] = ()
    updated_after: str | None = None
    must_include: tuple[str, ...] = ()
    must_include_any: tuple[str, ...] = ()
    must_exclude: tuple[str, ...] = ()
    top1: str | None = None
    top1_kind: str | None = None
    must_rank_above: tuple[tuple[str, str], ...] = ()
    min_coverage: float | None = None
    max_latency_ms: float | None = None
    semantic_state: tuple[str, ...] = ()

    @property
    def updated_after_ms(self) -> int | None:
        """The date filter in Unix milliseconds."""
        if self.updated_after is None:
            return None
        day = datetime.fromisoformat(self.updated_after).replace(tzinfo=UTC)
        return int(day.timestamp()) * 1000

    def documents(self) -> Iterator[str]:
        """Every document the assertions name, as `kind:ref`."""
        yield from (*self.must_include, *self.must_include_any, *self.must_exclude)
        yield from (name for pair in self.must_rank_above for name in pair)
        if self.top1 is not None:
            yield self.top1


@dataclass(frozen=True, slots=True)
class Failure:
    """One assertion that did not hold."""

    case: Case
    assertion: str
    came_instead: str


ASSERTIONS = (
    "must_include",
    "must_include_any",
    "must_exclude",
    "top1",
    "top1_kind",
    "must_rank_above",
    "min_coverage",
    "max_latency_ms",
    "semantic_state",
)
_FIELDS = {field.name for field in dataclasses.fields(Case)} - {"family"}
_LISTS = ("kinds", "must_include", "must_include_any", "must_exclude", "semantic_state")


def load(folder: Path = CASES_FOLDER) -> list[Case]:
    """All cases of a folder's `*.json` files.

    Raises:
        SetupError: a file cannot be read, a field is unknown or missing, an id comes twice, or a
            case asserts nothing.
    """
    cases = [case for path in sorted(folder.glob("*.json")) for case in _load_file(path)]
    if not cases:
        raise SetupError(f"{folder} holds no cases")
    seen: set[str] = set()
    for case in cases:
        if case.id in seen:
            raise SetupError(f"case {case.id} comes twice")
        seen.add(case.id)
    return cases


def _load_file(path: Path) -> Iterator[Case]:
    try:
        rows = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise SetupError(f"{path} cannot be read: {error}") from error
    for row in rows:
        yield parse(row, family=path.stem)


def parse(row: Mapping[str, Any], *, family: str) -> Case:
    """One case from its JSON object.

    Raises:
        SetupError: a field is unknown or missing, or nothing is asserted.
    """
    name = row.get("id", "without id")
    if unknown := row.keys() - _FIELDS:
        raise SetupError(f"case {name}: unknown fields {sorted(unknown)}")
    if not row.keys() & set(ASSERTIONS):
        raise SetupError(f"case {name} asserts nothing")
    values = dict(row)
    for field in _LISTS:
        if field in values:
            values[field] = tuple(values[field])
    if "must_rank_above" in values:
        values["must_rank_above"] = tuple((a, b) for a, b in values["must_rank_above"])
    try:
        return Case(family=family, **values)
    except TypeError as error:
        raise SetupError(f"case {name}: {error}") from error


def run(backend: Backend, case: Case) -> list[Failure]:
    """Search a case's query and judge the answer.

    Returns:
        one failure an assertion that did not hold; empty when the case passes.

    Raises:
        MemlaneError: the search could not be answered.
    """
    answer = backend.search(
        case.query,
        max(case.at, FETCHED),
        kinds=case.kinds,
        updated_after_ms=case.updated_after_ms,
    )
    return list(judge(case, answer))


def judge(case: Case, answer: Answer) -> Iterator[Failure]:
    """The assertions of a case that an answer breaks."""
    found = [hit.name for hit in answer.hits]
    rank = {name: position for position, name in enumerate(found, 1)}
    page = set(found[: case.at])
    came = ", ".join(found[:SHOWN]) or "nothing"

    def place(name: str) -> str:
        return f"{name} at {rank[name]}" if name in rank else f"{name} not found"

    for name in case.must_include:
        if name not in page:
            yield Failure(case, f"must_include {name}", f"{place(name)}; first: {came}")
    if case.must_include_any and not page & set(case.must_include_any):
        wanted = " or ".join(case.must_include_any)
        yield Failure(case, f"must_include_any {wanted}", f"first: {came}")
    for name in case.must_exclude:
        if name in page:
            yield Failure(case, f"must_exclude {name}", place(name))
    if case.top1 is not None and found[:1] != [case.top1]:
        yield Failure(case, f"top1 {case.top1}", f"{place(case.top1)}; first: {came}")
    if case.top1_kind is not None and [h.kind for h in answer.hits[:1]] != [case.top1_kind]:
        yield Failure(case, f"top1_kind {case.top1_kind}", f"first: {came}")
    for above, below in case.must_rank_above:
        if above not in rank or rank[above] > rank.get(below, len(found) + 1):
            yield Failure(
                case, f"must_rank_above {above} > {below}", f"{place(above)}, {place(below)}"
            )
    yield from _judge_figures(case, answer, rank)


def _judge_figures(case: Case, answer: Answer, rank: Mapping[str, int]) -> Iterator[Failure]:
    if case.min_coverage is not None:
        placed = [rank[name] for name in case.must_include if name in rank]
        at = min(placed, default=1) - 1
        coverage = answer.hits[at].components.get(COVERAGE, 0.0) if answer.hits else 0.0
        if coverage < case.min_coverage:
            yield Failure(case, f"min_coverage {case.min_coverage}", f"coverage {coverage:.3f}")
    if case.max_latency_ms is not None and answer.wall_ms > case.max_latency_ms:
        yield Failure(case, f"max_latency_ms {case.max_latency_ms}", f"{answer.wall_ms:.1f} ms")
    state = answer.semantic_state
    if case.semantic_state and state is not None and state not in case.semantic_state:
        yield Failure(case, f"semantic_state {' or '.join(case.semantic_state)}", state)


def report(cases: Sequence[Case], failures: Sequence[Failure]) -> dict[str, Any]:
    """Counts by family, and every failure.

    Returns:
        `{"n", "passed", "families": {FAMILY: {"n", "passed"}}, "failures": [{"id", "family",
        "query", "assertion", "came_instead", "reason"}]}`.
    """
    failed = {failure.case.id for failure in failures}
    families: dict[str, dict[str, int]] = {}
    for case in cases:
        row = families.setdefault(case.family, {"n": 0, "passed": 0})
        row["n"] += 1
        row["passed"] += case.id not in failed
    return {
        "n": len(cases),
        "passed": len(cases) - len(failed),
        "families": families,
        "failures": [
            {
                "id": failure.case.id,
                "family": failure.case.family,
                "query": failure.case.query,
                "assertion": failure.assertion,
                "came_instead": failure.came_instead,
                "reason": failure.case.reason,
            }
            for failure in failures
        ],
    }
