"""Making a tenant's documents follow a source: what differs is found out, then sent.

Of two versions of a document the one with the greater (`updated_at`, content hash) stays, whoever
sends it; a deletion beats the versions up to the one that was deleted. The service keeps this order
(`if_newer`), so machines that sync one tenant come to one end in whatever order they meet.

A run that is killed anywhere is made good by the next one: nothing is sent before it is noted in
the state, and sending a line twice changes nothing.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import IO, Any, Final

import orjson

from memlane import Client, ReplicaBehind
from memlane.shapes import Digests
from service.settings import Settings
from service.sources.comparison import Comparison, Plan, SourceShrunk, check, is_ours
from service.sources.remote import BUCKETS, Remote, look
from service.sources.source import Source
from service.sources.state import Known, Spooled, State, Status

__all__ = ["Plan", "Report", "SourceShrunk", "Sync"]

_SETTLED: Final = {
    "created": Status.SURE,
    "updated": Status.SURE,
    "touched": Status.SURE,
    "unchanged": Status.SURE,
    "superseded": Status.PENDING,
    "older": Status.OUTVOTED,
    "refused": Status.REFUSED,
}


@dataclasses.dataclass(slots=True)
class Report:
    """What a sync did: lines by result, the first refusals, the index version that holds it."""

    counts: Counter[str] = dataclasses.field(default_factory=Counter)
    refusals: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    version: int = 0


class Sync:
    """One run for one source: `plan`, then `carry_out`.

    Args:
        source: what is to be followed.
        client: of the tenant.
        state: what the last run left.
        settings: the limits.
    """

    def __init__(self, source: Source, client: Client, state: State, settings: Settings) -> None:
        self._source = source
        self._client = client
        self._state = state
        self._settings = settings
        self._spool: IO[bytes] = tempfile.TemporaryFile(dir=state.path.parent)  # noqa: SIM115
        self._signatures: dict[str, str] = {}
        self._touched: set[int] = set()
        self._remote: Remote | None = None

    def plan(self, manifest: Digests) -> Plan:
        """Compare the source with the service. Nothing is sent, and nothing remembered.

        Args:
            manifest: what the service holds.

        Raises:
            SetupError: the source cannot be read.
            memlane.MemlaneError: the service did not answer, or with an error.
        """
        self._remote = look(self._client, manifest, self._state.digests())
        comparison = Comparison(self._state, self._remote, self._spool, self._settings)
        comparison.look(self._source)
        self._signatures = comparison.signatures
        return comparison.plan

    def check(self, plan: Plan) -> None:
        """See that the source did not shrink as it does by mistake.

        Raises:
            SourceShrunk: it is empty all at once, or lost too large a share.
        """
        check(plan, self._source.path, self._settings)

    def carry_out(self, plan: Plan, advance: Callable[[int], None] = lambda _: None) -> Report:
        """Send what differs.

        Args:
            plan: of this run.
            advance: told how many lines were sent, each time.

        Raises:
            memlane.MemlaneError: the service did not answer, or with an error. The next run goes
                on from there.
        """
        remote = self._remote
        assert remote is not None
        report = Report(version=remote.version)
        alone = remote.steady
        self._state.adopt()
        for batch in self._batches(self._state.to_send()):
            alone = self._send(batch, report) and alone
            advance(len(batch))
        vanished = self._state.vanished()
        self._state.drop((each for each in vanished if not is_ours(each)), deleted=False)
        deletions = [each for each in vanished if is_ours(each)]
        for begin in range(0, len(deletions), self._settings.sync_batch_lines):
            chosen = deletions[begin : begin + self._settings.sync_batch_lines]
            alone = self._delete(chosen, report) and alone
            advance(len(chosen))
        self._finish(remote, report, alone=alone, sent=bool(plan.to_send or deletions))
        self._spool.close()
        return report

    # --- sending

    def _batches(self, spooled: Iterable[Spooled]) -> Iterator[list[Spooled]]:
        held: list[Spooled] = []
        size = 0
        for each in spooled:
            full = len(held) >= self._settings.sync_batch_lines
            if held and (full or size + each.size >= self._settings.sync_batch_bytes):
                yield held
                held, size = [], 0
            held.append(each)
            size += each.size + 1
        if held:
            yield held

    def _send(self, batch: list[Spooled], report: Report) -> bool:
        """Send documents; whether nobody else wrote meanwhile."""
        lines = []
        for spooled in batch:
            self._spool.seek(spooled.begin)
            lines.append(self._spool.read(spooled.size) + b"\n")
        documents = [spooled.known for spooled in batch]
        self._state.begin(documents)
        results, alone = self._write(documents, lines, report)
        self._state.settle(
            each._replace(status=_SETTLED.get(result, Status.PENDING))
            for each, result in zip(documents, results, strict=True)
        )
        return alone

    def _delete(self, documents: list[Known], report: Report) -> bool:
        lines = [
            orjson.dumps(
                {
                    "op": "delete",
                    "kind": each.kind,
                    "ref": each.ref,
                    "updated_at": each.updated_at,
                    "if_newer": True,
                },
                option=orjson.OPT_APPEND_NEWLINE,
            )
            for each in documents
        ]
        _, alone = self._write(documents, lines, report)
        self._state.drop(documents, deleted=True)
        return alone

    def _write(
        self, documents: list[Known], lines: list[bytes], report: Report
    ) -> tuple[list[str], bool]:
        """Write lines; what became of each, and whether nobody else wrote meanwhile."""
        self._touched |= {each.key[0] for each in documents}
        told = self._client.batch(b"".join(lines), atomic=False)
        found = {line["line"]: line for line in told["results"]}
        # Refusals beyond those that are described are only counted.
        results = [
            found[number]["result"] if number in found else "refused"
            for number in range(1, len(lines) + 1)
        ]
        report.counts.update(results)
        for number, line in found.items():
            if line["result"] == "refused":
                each = documents[number - 1]
                why = {"kind": each.kind, "ref": each.ref, "error": line.get("error", "")}
                report.refusals.append(why)
        alone = told["version"] - report.version in (0, 1)
        report.version = max(report.version, told["version"])
        return results, alone

    def _finish(self, remote: Remote, report: Report, *, alone: bool, sent: bool) -> None:
        """Remember the buckets that nobody else changed: all about them is known."""
        after = remote.digests
        if sent:
            try:
                told = self._client.manifest(min_version=report.version)
            except ReplicaBehind:  # all was taken; only what to remember cannot be told yet
                self._state.finish({}, self._signatures)
                return
            alone = alone and told["version"] == report.version
            after = told["digests"]
        quiet = {
            number: after[number]
            for number in range(BUCKETS)
            if alone or (remote.digests[number] == after[number] and number not in self._touched)
        }
        self._state.finish(quiet if alone or remote.steady else {}, self._signatures)
