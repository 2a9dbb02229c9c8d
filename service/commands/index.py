"""`memlane index ...`: what a tenant's index holds, and what its vectors weigh."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from service.commands.console import (
    call,
    connection,
    data_option,
    errors_shown,
    json_option,
    result,
    service_options,
)


@click.group()
def index() -> None:
    """A tenant's index: documents, vectors, freshness."""


@index.command()
@service_options
@data_option
@json_option
def status(url: str | None, key: str | None, data: Path, as_json: bool) -> None:
    """Show documents and vectors by kind, and what is missing since when."""
    with errors_shown():
        url, key = connection(url, key, data, want="reader")
        found = call("GET", f"{url}/v1/index", key)
    result(found, "\n".join(_lines(found)), as_json=as_json)


@index.command()
@click.argument("percent", type=click.IntRange(0, 100))
@service_options
@data_option
@json_option
def semantic(percent: int, url: str | None, key: str | None, data: Path, as_json: bool) -> None:
    """Let vectors weigh PERCENT of the default for this tenant; 0 turns them off."""
    with errors_shown():
        url, key = connection(url, key, data, want="writer")
        told = call("POST", f"{url}/v1/index:semantic", key, body={"percent": percent})
    result(told, f"vectors weigh {told['percent']} % of the default", as_json=as_json)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    vectors, freshness = found["vectors"], found["index"]
    yield (
        f"{found['tenant']}: {found['documents']} documents, {found['bytes'] / 2**20:.1f} MiB,"
        f" version {freshness['version']}, {freshness['age_ms']} ms old"
    )
    model = vectors["model"] or "no vectors yet: no sidecar has filled this index"
    yield f"vectors: {model}; coverage {vectors['coverage']:.4f}, weight {vectors['percent']} %"
    for kind, row in vectors["by_kind"].items():
        yield f"  {kind:<20} {row['complete']:>8} of {row['documents']:>8}  {row['coverage']:.4f}"
    if vectors["pending"] and vectors["oldest_missing_ms"] is not None:
        age_s = vectors["oldest_missing_ms"] / 1_000
        yield f"  {vectors['pending']} wait; the oldest missing vector for {age_s:.0f} s"
    if vectors["quarantined"]:
        reasons = ", ".join(f"{name} {count}" for name, count in vectors["reasons"].items())
        yield f"  {vectors['quarantined']} were given up: {reasons}"
    if vectors["dropped_chars"]:
        yield f"  {vectors['dropped_chars']} characters of very long documents are in no passage"
