"""`memlane sync [SOURCE]`: a tenant's documents follow what lies on this machine."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import math
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import click

import memlane
from service.commands.console import (
    connection,
    data_option,
    errors_shown,
    json_option,
    result,
    say,
    service_options,
)
from service.errors import MemlaneError, SetupError
from service.settings import Settings
from service.sources import config as configs
from service.sources.config import Config, Entry
from service.sources.known import TYPES, guess, open_source
from service.sources.source import Skipped, Source
from service.sources.state import State
from service.sources.sync import Plan, Report, SourceShrunk, Sync

SKIPPED_SHOWN = 20


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    """What the options say of how to sync."""

    yes: bool
    dry_run: bool
    quiet: bool
    states: Path
    settings: Settings


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """One source, and the tenant that follows it."""

    type: str
    name: str
    source: Source
    url: str
    key: str


@click.command()
@click.argument("source", required=False, type=click.Path(path_type=Path))
@click.option("--type", "kind", type=click.Choice(TYPES), help="What SOURCE is [default: look].")
@click.option("--name", help="What its refs begin with, and its state's name [default: SOURCE's].")
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="TOML of sources.")
@click.option("--state", "states", type=click.Path(path_type=Path), help="Folder of states.")
@click.option("--dry-run", is_flag=True, help="Only say what would be sent and deleted.")
@click.option("--yes", is_flag=True, help="Follow a source that lost most of its documents.")
@click.option("--watch", is_flag=True, help="Go on: sync again whenever a source changes.")
@service_options
@data_option
@json_option
def sync(
    source: Path | None,
    kind: str | None,
    name: str | None,
    config_path: Path | None,
    states: Path | None,
    dry_run: bool,
    yes: bool,
    watch: bool,
    url: str | None,
    key: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Make the service hold what SOURCE holds; without SOURCE, all that the config file names.

    SOURCE is a file of NDJSON, a folder of Markdown, Claude Code's transcripts, Open Walnut's
    search.sqlite or AgentKits' memory.db. Only what differs is sent. Safe to repeat and to kill.
    """
    with errors_shown():
        config = _config(config_path, needed=source is None)
        url, key = connection(url or config.url, key or config.key(), data, want="writer")
        settings = Settings.from_environment()
        entries = config.sources if source is None else (Entry(source, kind, name),)
        targets = [_target(entry, url, key, settings) for entry in entries]
        choice = Choice(yes, dry_run, as_json, states or configs.state_folder(), settings)
        if watch:
            _watch(targets, choice, as_json=as_json)
            return
        failed = _all(targets, choice, as_json=as_json)
    if failed:
        raise click.exceptions.Exit(1)


def _config(path: Path | None, *, needed: bool) -> Config:
    if path is None:
        path = configs.default_path()
        if not path.exists():
            if needed:
                raise SetupError(
                    "no SOURCE is given and there is no config file",
                    hint=f"Name a source, or write {path}; docs/SYNC.md shows how.",
                )
            return Config()
    found = configs.read(path)
    if needed and not found.sources:
        raise SetupError(f"{path} names no source", hint="Add a [[source]].")
    return found


def _target(entry: Entry, url: str, key: str, settings: Settings) -> Target:
    path = entry.path.expanduser().resolve()
    if not path.exists():
        raise SetupError(f"{entry.path} is not there", hint="Check the path.")
    kind = entry.type or guess(path, settings)
    name = entry.name or path.name
    return Target(kind, name, open_source(kind, path, name, settings), url, key)


def _all(targets: Sequence[Target], choice: Choice, *, as_json: bool) -> bool:
    """Sync each; whether one failed. A failure of one does not keep the others."""
    told, failed = [], False
    for target in targets:
        try:
            told.append(run(target, choice))
        except (MemlaneError, memlane.MemlaneError) as error:
            if len(targets) == 1:
                raise
            failed = True
            say(f"memlane: {target.source.path}: {error.detail}")
            say(f"  {error.hint}")
            told.append({"source": str(target.source.path), "error": error.detail})
    result({"sources": told}, "\n".join(map(_line, told)), as_json=as_json)
    return failed


@dataclasses.dataclass(slots=True)
class Watched:
    """A source that is watched: how it looked when it was synced last, when, and what failed."""

    target: Target
    looked: str | None = None
    at_s: float | None = None
    failed: str = ""


def _watch(targets: Sequence[Target], choice: Choice, *, as_json: bool) -> None:
    """Sync until interrupted: each source when it changed, and all now and then."""
    all_watched = [Watched(target) for target in targets]
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell had us ignore the first
        signal.signal(number, signal.default_int_handler)
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            for watched in all_watched:
                _follow(watched, choice, as_json=as_json)
            time.sleep(choice.settings.sync_poll_ms / 1_000)


def _follow(watched: Watched, choice: Choice, *, as_json: bool) -> None:
    """Sync a source if there is a reason to; a failure is said once, not at every look."""
    source, first = watched.target.source, watched.at_s is None
    try:
        looks = fingerprint(source)
        age_s = math.inf if watched.at_s is None else time.monotonic() - watched.at_s
        fresh = age_s * 1_000 < choice.settings.sync_refresh_ms
        if looks is not None and looks == watched.looked and fresh:
            return
        told = run(watched.target, choice)
    except (MemlaneError, memlane.MemlaneError) as error:
        failed = f"memlane: {source.path}: {error.detail}\n  {error.hint}"
        if failed != watched.failed:
            say(failed)
        watched.failed = failed
        return
    if watched.failed:
        say(f"memlane: {source.path}: goes on")
    watched.looked, watched.at_s, watched.failed = looks, time.monotonic(), ""
    if told["lines"] or told["skipped"] or first:
        result(told, _line(told), as_json=as_json)


def fingerprint(source: Source) -> str | None:
    """What a source looks like from outside; None when that cannot be told."""
    digest = hashlib.blake2b(digest_size=16)
    for unit in source.units():
        if isinstance(unit, Skipped):
            digest.update(f"{unit.unit}\0{unit.reason}\0".encode())
        elif unit.signature is None:
            return None
        else:
            digest.update(f"{unit.name}\0{unit.signature}\0".encode())
    return digest.hexdigest()


def run(target: Target, choice: Choice) -> dict[str, Any]:
    """Sync one source once.

    Returns:
        `{"source", "type", "tenant", "documents", "lines", "counts", "outvoted", "refusals",
        "skipped", "duplicates", "version", "dry_run", "requests", "bytes_sent", "bytes_received",
        "seconds"}`; `lines` is what was sent, or would be.
    """
    begun = time.monotonic()
    with memlane.Client(target.url, target.key) as client:
        manifest = client.manifest()
        with _state(target, manifest["tenant"], choice) as state:
            syncing = Sync(target.source, client, state, choice.settings)
            plan = syncing.plan(manifest)
            report = Report()
            if not choice.dry_run:
                _confirm(syncing, plan, choice)
                report = _carry_out(syncing, plan, target, choice)
        traffic = client.traffic
    return {
        "source": str(target.source.path),
        "type": target.type,
        "tenant": manifest["tenant"],
        "documents": plan.documents,
        "lines": plan.to_send + plan.to_delete,
        "counts": dict(report.counts)
        if not choice.dry_run
        else {"to_send": plan.to_send, "to_delete": plan.to_delete},
        "outvoted": plan.outvoted,
        "refused_earlier": plan.refused,
        "refusals": report.refusals,
        "skipped": [_skipped(each) for each in plan.skipped],
        "duplicates": plan.duplicates,
        "version": report.version,
        "dry_run": choice.dry_run,
        "requests": traffic.requests,
        "bytes_sent": traffic.bytes_sent,
        "bytes_received": traffic.bytes_received,
        "seconds": round(time.monotonic() - begun, 3),
    }


def _state(target: Target, tenant: str, choice: Choice) -> State:
    parts = (target.url, tenant, target.type, str(target.source.path), target.name)
    identity = "\n".join(parts)
    digest = hashlib.blake2b(identity.encode(), digest_size=8).hexdigest()
    return State(choice.states / f"{target.type}-{digest}.sqlite", identity)


def _confirm(syncing: Sync, plan: Plan, choice: Choice) -> None:
    if choice.yes:
        return
    try:
        syncing.check(plan)
    except SourceShrunk as error:
        if choice.quiet or not sys.stdin.isatty():
            raise
        click.confirm(f"{error.detail}. Go on?", abort=True, err=True)


def _carry_out(syncing: Sync, plan: Plan, target: Target, choice: Choice) -> Report:
    lines = plan.to_send + plan.to_delete
    with click.progressbar(
        length=lines,
        label=f"sync {target.name}",
        file=sys.stderr,
        hidden=choice.quiet or not lines,
        show_pos=True,
    ) as bar:
        return syncing.carry_out(plan, bar.update)


def _skipped(skipped: Skipped) -> dict[str, str]:
    return {"unit": skipped.unit, "where": skipped.where, "reason": skipped.reason}


def _line(told: dict[str, Any]) -> str:
    if "error" in told:
        return f"{told['source']}: failed"
    return "\n".join(_lines(told))


def _lines(told: dict[str, Any]) -> Iterable[str]:
    counts = ", ".join(f"{count} {name}" for name, count in sorted(told["counts"].items()))
    yield (
        f"{told['source']} ({told['type']}): {told['documents']} documents;"
        f" {counts or 'nothing to do'}; {told['bytes_sent']:,} bytes sent, {told['seconds']:.1f} s"
    )
    if told["outvoted"]:
        yield f"  {told['outvoted']} are newer at the service, or deleted there"
    if told["refused_earlier"]:
        yield f"  {told['refused_earlier']} were refused before and have not changed"
    for refusal in told["refusals"][:SKIPPED_SHOWN]:
        yield f"  refused: {refusal['kind']} {refusal['ref']}: {refusal['error']}"
    for skipped in told["skipped"][:SKIPPED_SHOWN]:
        where = " ".join(filter(None, (skipped["unit"], skipped["where"])))
        yield f"  skipped: {where}: {skipped['reason']}"
    if (more := len(told["skipped"]) - SKIPPED_SHOWN) > 0:
        yield f"  and {more} more were skipped"
