"""Machines that sync one tenant come to one end, in whatever order they meet."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from service.sources.source import Document, Skipped, Unit
from tests.sources.world import Hosted, Machine

REFS = ("a", "b", "c")
Edit = tuple[str, int | None, str]
"""A ref, the time of its new version or None for a deletion, and its text."""

edits = st.lists(
    st.tuples(
        st.sampled_from(REFS), st.one_of(st.none(), st.integers(1, 4)), st.sampled_from("xyz")
    ),
    max_size=5,
)


@dataclasses.dataclass
class Memory:
    """A source in memory, as one machine has it."""

    path: Path = Path("memory")
    held: dict[str, Document] = dataclasses.field(default_factory=dict)

    def edit(self, changes: Sequence[Edit]) -> None:
        for ref, at, text in changes:
            if at is None:
                self.held.pop(ref, None)
            else:
                self.held[ref] = Document(kind="note", ref=ref, title=text, updated_at=at)

    def units(self) -> Iterator[Unit | Skipped]:
        yield Unit("all", None)

    def read(self, unit: Unit) -> Iterator[Document | Skipped]:
        yield from self.held.values()


def end_state(
    folder: Path, before: list[list[Edit]], offline: list[list[Edit]], order: tuple[int, int]
) -> tuple[list[str], list[str]]:
    """Both begin in turn, go offline, change things, and come back in this order.

    Returns:
        The manifest after that, and after both synced once more.
    """
    hosted = Hosted(folder / "service")
    try:
        sources = [Memory(), Memory()]
        machines = [Machine(hosted, folder / f"machine{number}") for number in range(2)]
        for number in range(2):
            sources[number].edit(before[number])
            machines[number].sync(sources[number])
        for number in order:
            sources[number].edit(offline[number])
            machines[number].sync(sources[number])
        met = hosted.manifest()
        for number in order:
            machines[number].sync(sources[number])
        return met, hosted.manifest()
    finally:
        hosted.close()


@settings(max_examples=25, deadline=None)
@given(
    before=st.tuples(edits, edits).map(list),
    offline=st.tuples(edits, edits).map(list),
)
def test_two_machines_come_to_the_same_end_in_either_order(
    before: list[list[Edit]], offline: list[list[Edit]]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        one = end_state(Path(folder, "one"), before, offline, (0, 1))
        other = end_state(Path(folder, "other"), before, offline, (1, 0))
    assert one == other
    met, later = one
    assert met == later, "nothing is left to say"


def test_the_newer_version_stays_and_a_deletion_does_not_hide_a_newer_edit(tmp_path: Path) -> None:
    both = [("a", 1, "x"), ("b", 1, "x"), ("c", 1, "x")]
    hosted = Hosted(tmp_path / "service")
    sources = [Memory(), Memory()]
    machines = [Machine(hosted, tmp_path / f"machine{number}") for number in range(2)]
    for number in range(2):
        sources[number].edit(both)
        machines[number].sync(sources[number])
    sources[0].edit([("a", 3, "first machine"), ("b", None, ""), ("c", None, "")])
    sources[1].edit([("a", 2, "second machine"), ("b", 2, "second machine")])
    for number in (1, 0):
        machines[number].sync(sources[number])
    titles = {ref: document.title for (_, ref), document in hosted.documents().items()}
    assert titles == {"a": "first machine", "b": "second machine"}
    plan, report = machines[1].sync(sources[1])
    assert report.counts == {"older": 1}, "what the other machine deleted does not come back"
    assert plan.outvoted == 1
    hosted.close()
