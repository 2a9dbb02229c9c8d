"""`memlane doctor`: what keeps this machine from searching and syncing, and what to do about it."""

from __future__ import annotations

import dataclasses
import sys
import time
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final, Literal

import click
import httpx

import memlane
from service.commands.console import (
    connection,
    data_option,
    errors_shown,
    json_option,
    result,
    service_options,
)
from service.commands.sync import fingerprint
from service.errors import MemlaneError
from service.settings import Settings
from service.sources import config as configs
from service.sources.config import Config, Entry
from service.sources.known import guess, open_source
from service.sources.source import Skipped, Unit

CLOCK_MOST_S: Final = 60.0
"""Times decide which version of a document stays, so clocks that differ by more mislead."""
TIMEOUT_S: Final = 5.0
INTERFACE: Final = "1"
UNITS_READ: Final = 20
"""So many files of a source are read to see whether they can be."""

Verdict = Literal["ok", "warning", "failed"]
_SHOWN: Final = {"ok": "ok     ", "warning": "warning", "failed": "FAILED "}


@dataclasses.dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at; `hint` says what to do when it is not right."""

    name: str
    verdict: Verdict
    detail: str
    hint: str = ""


@click.command()
@click.argument("sources", nargs=-1, type=click.Path(path_type=Path))
@click.option("--config", "config_path", type=click.Path(path_type=Path), help="TOML of sources.")
@service_options
@data_option
@json_option
def doctor(
    sources: tuple[Path, ...],
    config_path: Path | None,
    url: str | None,
    key: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Check the address, the key, the clocks, the versions and the SOURCES of this machine."""
    with errors_shown():
        checks = list(_checks(sources, config_path, url, key, data))
    lines = []
    for check in checks:
        lines.append(f"{_SHOWN[check.verdict]} {check.name}: {check.detail}")
        if check.hint and check.verdict != "ok":
            lines.append(f"        {check.hint}")
    told = {"checks": [dataclasses.asdict(check) for check in checks]}
    result(told, "\n".join(lines), as_json=as_json)
    if any(check.verdict == "failed" for check in checks):
        raise click.exceptions.Exit(1)


def _checks(
    sources: tuple[Path, ...],
    config_path: Path | None,
    url: str | None,
    key: str | None,
    data: Path,
) -> Iterator[Check]:
    running = ".".join(map(str, sys.version_info[:3]))
    yield Check("this machine", "ok", f"memlane {version('memlane')}, Python {running}")
    config = Config()
    path = config_path or configs.default_path()
    if config_path is not None or path.exists():
        try:
            config = configs.read(path)
            yield Check("config", "ok", f"{path} names {len(config.sources)} sources")
        except MemlaneError as error:
            yield Check("config", "failed", error.detail, error.hint)
    try:
        url, key = connection(url or config.url, key or config.key(), data, want="writer")
    except MemlaneError as error:
        yield Check("address", "failed", error.detail, error.hint)
    else:
        yield from _service(url, key)
    entries = [Entry(each) for each in sources] or list(config.sources)
    settings = Settings.from_environment()
    for entry in entries:
        yield _source(entry, settings)
    yield _states()


def _service(url: str, key: str) -> Iterator[Check]:
    begun = time.time()
    try:
        answer = httpx.get(f"{url}/readyz", timeout=TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        name = type(error).__name__
        yield Check("address", "failed", f"{url} does not answer ({name})", "Check --url.")
        return
    took_ms = (time.time() - begun) * 1_000
    try:
        told = answer.json()
        role = str(told["role"])
    except (ValueError, KeyError, TypeError):
        yield Check("address", "failed", f"{url} is not Memlane", "Check --url.")
        return
    yield Check("address", "ok", f"{url}, a {role}, answers in {took_ms:.0f} ms")
    reasons = "; ".join(map(str, told.get("reasons", []))) or "no reason given"
    if told.get("ready"):
        yield Check("readiness", "ok", "able to serve")
    else:
        yield Check("readiness", "failed", reasons, "Tell its operator, or wait.")
    yield _clock(answer, begun)
    limits = memlane.Limits(attempts=2, timeout_s=TIMEOUT_S)
    try:
        with memlane.Client(url, key, limits=limits) as client:
            yield _versions(client)
            yield _right(client, "sync")
            yield _right(client, "search")
    except memlane.MemlaneError as error:
        yield Check("key", "failed", error.detail, error.hint)


def _clock(answer: httpx.Response, begun: float) -> Check:
    try:
        theirs = parsedate_to_datetime(answer.headers["date"]).timestamp()
    except (KeyError, ValueError, TypeError):
        return Check("clock", "warning", "the service does not tell its time")
    off_s = theirs - begun
    if abs(off_s) <= CLOCK_MOST_S:
        return Check("clock", "ok", f"within {CLOCK_MOST_S:.0f} s of the service's")
    return Check(
        "clock",
        "failed",
        f"{abs(off_s):.0f} s {'behind' if off_s > 0 else 'ahead of'} the service's",
        "Set this machine's clock (NTP): times decide which version of a document stays.",
    )


def _versions(client: memlane.Client) -> Check:
    described = client.call("GET", "/v1/openapi.json")
    theirs = str(described["info"]["version"])
    if theirs == INTERFACE and "/v1/manifest" in described["paths"]:
        return Check("versions", "ok", f"both speak interface {INTERFACE}")
    return Check(
        "versions",
        "failed",
        f"this machine speaks interface {INTERFACE}, the service {theirs} or an earlier release",
        "Upgrade the older one.",
    )


def _right(client: memlane.Client, scope: str) -> Check:
    name = f"key for {scope}"
    try:
        if scope == "sync":
            told = client.manifest()
            return Check(name, "ok", f"tenant {told['tenant']}, {told['documents']} documents")
        client.status()
    except memlane.Forbidden as error:
        return Check(name, "warning", error.detail, error.hint)
    except memlane.MemlaneError as error:
        return Check(name, "failed", error.detail, error.hint)
    return Check(name, "ok", "allowed")


def _source(entry: Entry, settings: Settings) -> Check:
    name = f"source {entry.path}"
    try:
        path = entry.path.expanduser().resolve()
        kind = entry.type or guess(path, settings)
        source = open_source(kind, path, entry.name or path.name, settings)
        units = list(source.units())
        trouble = [each for each in units if isinstance(each, Skipped)]
        files = [each for each in units if isinstance(each, Unit)]
        documents = 0
        for unit in files[:UNITS_READ]:
            for found in source.read(unit):
                if isinstance(found, Skipped):
                    trouble.append(found)
                else:
                    documents += 1
        watched = "" if fingerprint(source) else "; it changed just now, or is read at every look"
    except MemlaneError as error:
        return Check(name, "failed", error.detail, error.hint)
    looked = min(len(files), UNITS_READ)
    detail = f"{kind}; {documents} documents in {looked} of {len(files)} files{watched}"
    if trouble:
        first = trouble[0]
        where = " ".join(filter(None, (first.unit, first.where)))
        return Check(
            name,
            "warning",
            f"{detail}; {len(trouble)} skipped, first {where}: {first.reason}",
            "What is skipped is not sent, and nothing of it is deleted.",
        )
    if not documents:
        return Check(name, "warning", f"{detail}", "There is nothing in it to sync.")
    return Check(name, "ok", detail)


def _states() -> Check:
    folder = configs.state_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        probe = folder / ".doctor"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        return Check(
            "states", "failed", f"{folder} cannot be written ({error.strerror})", "Give --state."
        )
    return Check("states", "ok", f"{folder} can be written")
