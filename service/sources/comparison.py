"""Comparing a source with the service: what each document is there, and what is to be sent.

A unit that has not changed since the last run is not read, unless the service lacks some of it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import IO

from memlane.digests import key_of
from service.errors import SetupError
from service.settings import Settings
from service.sources.remote import Remote
from service.sources.source import Document, Skipped, Source, Unit
from service.sources.state import Known, State, Status
from service.sources.times import now_ms


class SourceShrunk(SetupError):
    """The source lost so many documents that this may be a mistake; nothing was sent."""


@dataclasses.dataclass(slots=True)
class Plan:
    """What a sync is about to do.

    Attributes:
        documents: in the source.
        known: in it at the last run.
        to_send: documents that the service lacks or has older.
        to_delete: documents that were sent from here and are no more.
        outvoted: documents of which the service has something newer.
        refused: documents that the service refused earlier, unchanged since.
        duplicates: documents that came twice; the later one counts.
        skipped: what could not be read.
    """

    documents: int = 0
    known: int = 0
    to_send: int = 0
    to_delete: int = 0
    outvoted: int = 0
    refused: int = 0
    duplicates: int = 0
    skipped: list[Skipped] = dataclasses.field(default_factory=list)


class Comparison:
    """One look at a source.

    Args:
        state: what the last run left; the scan is kept in it.
        remote: what the service holds.
        spool: where the lines to be sent are put.
        settings: the limits.

    Attributes:
        plan: what was found.
        signatures: of the units that were read to their end, or need not be read.
    """

    def __init__(self, state: State, remote: Remote, spool: IO[bytes], settings: Settings) -> None:
        self.plan = Plan(known=state.count())
        self.signatures: dict[str, str] = {}
        self._state = state
        self._remote = remote
        self._spool = spool
        self._settings = settings

    def look(self, source: Source) -> None:
        """Compare all of a source.

        Raises:
            SetupError: it cannot be read.
        """
        plan, state = self.plan, self._state
        state.forget_scan()
        for unit in source.units():
            self._scan(source, unit)
        for skipped in plan.skipped:
            if skipped.names is not None:
                state.keep(key_of(*skipped.names))
            else:
                state.keep_unit(skipped.unit)
        plan.documents = state.scanned()
        plan.to_send = sum(1 for _ in state.to_send())
        plan.to_delete = sum(is_ours(known) for known in state.vanished())
        plan.outvoted = state.scanned(Status.OUTVOTED)
        plan.refused = state.scanned(Status.REFUSED)

    def _scan(self, source: Source, unit: Unit | Skipped) -> None:
        if isinstance(unit, Skipped):
            self.plan.skipped.append(unit)
            return
        same = unit.signature is not None and unit.signature == self._state.signature(unit.name)
        if same and self._is_settled(unit):
            assert unit.signature is not None
            self.signatures[unit.name] = unit.signature
            return
        whole = True
        for found in source.read(unit):
            if isinstance(found, Skipped):
                self.plan.skipped.append(found)
                whole = False
            else:
                self._take(unit, found)
        if whole and unit.signature is not None:
            self.signatures[unit.name] = unit.signature

    def _is_settled(self, unit: Unit) -> bool:
        """Whether an unchanged unit need not be read; what it holds is noted then."""
        if not self._remote.listed:
            if self._state.is_pending(unit.name):
                return False
            self._state.keep_unit(unit.name)
            return True
        known = list(self._state.of_unit(unit.name))
        now = [each._replace(status=self._status(each, each)) for each in known]
        if any(each.status == Status.PENDING for each in now):
            return False
        for each in now:
            self._state.seen(each, None, None)
        return True

    def _take(self, unit: Unit, document: Document) -> None:
        key, content_hash = document.key, document.content_hash()
        before = self._state.known(key)
        own = document.updated_at
        theirs = self._remote.rows.get(key)
        if own is None and before is None and theirs is not None and theirs[1] == content_hash:
            own = theirs[0]
        updated_at = self._updated_at(own, key, content_hash, before)
        now = Known(key, document.kind, document.ref, unit.name, content_hash, updated_at, 0)
        now = now._replace(status=self._status(now, before))
        begin = size = None
        if now.status == Status.PENDING:
            line = document.line(updated_at)
            if len(line) > self._settings.sync_line_bytes:
                names = (document.kind, document.ref)
                reason = f"a document longer than {self._settings.sync_line_bytes} bytes"
                self.plan.skipped.append(Skipped(unit.name, "", reason, names))
                return
            begin, size = self._spool.tell(), len(line)
            self._spool.write(line)
        self.plan.duplicates += self._state.seen(now, begin, size)

    def _updated_at(
        self, own: int | None, key: bytes, content_hash: bytes, before: Known | None
    ) -> int:
        """The time this version goes by: its own, but after what it replaces here.

        A file restored from a backup is older by its own time, and still what its owner wants.
        """
        if before is not None:
            if before.hash == content_hash:
                return max(before.updated_at, own or 0)
            return max(before.updated_at + 1, now_ms() if own is None else own)
        gone_at = self._state.gone_at(key)
        own = now_ms() if own is None else own
        return own if gone_at is None else max(own, gone_at + 1)

    def _status(self, now: Known, before: Known | None) -> Status:
        """What the service has of a version, by its manifest and by what the last run knew."""
        same = before is not None and before[4:6] == now[4:6]
        past = Status(before.status) if same and before is not None else Status.PENDING
        if now.key[0] not in self._remote.listed:
            return past
        theirs = self._remote.rows.get(now.key)
        if theirs == (now.updated_at, now.hash):
            return Status.SURE
        if theirs is not None and theirs > (now.updated_at, now.hash):
            return Status.OUTVOTED
        # Gone there, or older: what was outvoted stays so, what was refused would be again.
        return past if past in (Status.OUTVOTED, Status.REFUSED) else Status.PENDING


def check(plan: Plan, path: Path, settings: Settings) -> None:
    """See that a source did not shrink as it does by mistake.

    Raises:
        SourceShrunk: it is empty all at once, or lost too large a share.
    """
    lost = plan.to_delete
    emptied = plan.documents == 0 and lost > 0
    if emptied or lost * 100 >= plan.known * settings.sync_shrink_percent > 0:
        raise SourceShrunk(
            f"{path} has {plan.documents} documents left of {plan.known};"
            f" {lost} would be deleted from the service",
            hint="If that is what you want, run it again with --yes.",
        )


def is_ours(known: Known) -> bool:
    """Whether the service may have this very version from here."""
    return known.status in (Status.PENDING, Status.SURE)
