"""`memlane tenant ...` and `memlane key ...`, through the writer's API."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

from service.commands.console import (
    call,
    connection,
    data_option,
    errors_shown,
    json_option,
    result,
    say,
    service_options,
)
from service.commands.export import export_tenant
from service.tenancy.placements import MAIN

LONG_S: Final = 600.0
"""Longest one call may take that moves a whole file."""
PAUSE_S: Final = 1.0


@click.group()
def tenant() -> None:
    """Tenants: each has its own file and keys."""


@tenant.command("create")
@click.argument("name")
@click.option("--shard", default=MAIN, show_default=True, help="Whose writer has its file.")
@service_options
@data_option
@json_option
def create_tenant(
    name: str, shard: str, url: str | None, key: str | None, data: Path, as_json: bool
) -> None:
    """Create a tenant. Needs an operator key."""
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        made = call("POST", f"{url}/v1/admin/tenants", key, body={"name": name, "shard": shard})
    hint = f"memlane key create {name} --scope search --scope sync"
    result(made, f"tenant {name} is there; next: {hint}", as_json=as_json)


@tenant.command("list")
@service_options
@data_option
@json_option
def list_tenants(url: str | None, key: str | None, data: Path, as_json: bool) -> None:
    """List tenants. Needs an operator key."""
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        found = call("GET", f"{url}/v1/admin/tenants", key)
    lines = [f"{one['name']}  {one['state']}  {one['shard']}" for one in found["tenants"]]
    result(found, "\n".join(lines) or "no tenants", as_json=as_json)


@tenant.command("move")
@click.argument("name")
@click.option("--to", required=True, help="The shard whose writer takes the tenant over.")
@click.option(
    "--wait-s", type=float, default=120.0, show_default=True, help="Longest to wait for it."
)
@service_options
@data_option
@json_option
def move_tenant(
    name: str,
    to: str,
    wait_s: float,
    url: str | None,
    key: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Move a tenant to another shard's writer; nothing is lost. Needs an operator key.

    Its batches are answered with 503 meanwhile; searches go on. Asked again, it waits for the same
    move. Exit status 1 means that it is not done yet and goes on.
    """
    deadline = time.monotonic() + wait_s
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        while True:
            address = f"{url}/v1/admin/tenants/{name}:move"
            told = call("POST", address, key, body={"to": to}, timeout_s=LONG_S)
            if told["moving_to"] is None or time.monotonic() >= deadline:
                break
            time.sleep(PAUSE_S)
    if told["moving_to"] is not None:
        text = f"tenant {name} is not on shard {to} yet: are the writers of both shards up?"
        result(told, text, as_json=as_json)
        raise click.exceptions.Exit(1)
    result(told, f"tenant {name} is on shard {to}", as_json=as_json)


@tenant.command("suspend")
@click.argument("name")
@service_options
@data_option
@json_option
def suspend_tenant(name: str, url: str | None, key: str | None, data: Path, as_json: bool) -> None:
    """Refuse a tenant's keys; nothing is lost. Needs an operator key."""
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        told = call("POST", f"{url}/v1/admin/tenants/{name}:suspend", key)
    result(told, f"tenant {name} is suspended", as_json=as_json)


@tenant.command("resume")
@click.argument("name")
@service_options
@data_option
@json_option
def resume_tenant(name: str, url: str | None, key: str | None, data: Path, as_json: bool) -> None:
    """Take a suspended tenant's keys again. Needs an operator key."""
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        told = call("POST", f"{url}/v1/admin/tenants/{name}:resume", key)
    result(told, f"tenant {name} is active", as_json=as_json)


@tenant.command("delete")
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask at the terminal.")
@click.option(
    "--wait-s", type=float, default=120.0, show_default=True, help="Longest to wait for it."
)
@service_options
@data_option
@json_option
def delete_tenant(
    name: str,
    yes: bool,
    wait_s: float,
    url: str | None,
    key: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Delete a tenant and all its data for good. Needs an operator key.

    Prints the receipt of what was removed. Asked again, it prints the same one. Exit status 1
    means that it is not done yet and goes on.
    """
    if not yes and not as_json and sys.stdin.isatty():
        click.confirm(f"Delete tenant {name} and all its data for good?", abort=True, err=True)
    deadline = time.monotonic() + wait_s
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        while True:
            told = call("DELETE", f"{url}/v1/admin/tenants/{name}", key, timeout_s=LONG_S)
            receipt = told["deletion"]["receipt"]
            if receipt is not None or time.monotonic() >= deadline:
                break
            say(f"tenant {name} is being deleted: {told['deletion']['trouble'] or 'under way'}")
            time.sleep(PAUSE_S)
    if receipt is None:
        trouble = told["deletion"]["trouble"] or "it takes long"
        result(told, f"tenant {name} is not deleted yet and goes on: {trouble}", as_json=as_json)
        raise click.exceptions.Exit(1)
    text = (
        f"tenant {name} is deleted: {receipt['documents']} documents,"
        f" {receipt['objects_deleted']} objects of {receipt['bytes_deleted']} bytes,"
        f" {receipt['local_files_removed']} local files; 0 objects remain"
    )
    result(told, text, as_json=as_json)


@tenant.command("restore")
@click.argument("name")
@click.option("--at", required=True, help="The moment: ISO 8601 (UTC without a zone), or Unix ms.")
@click.option("--dry-run", is_flag=True, help="Only say what it would be.")
@service_options
@data_option
@json_option
def restore_tenant(
    name: str,
    at: str,
    dry_run: bool,
    url: str | None,
    key: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Bring a tenant back to an earlier moment, as a new version. Needs an operator key."""
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        body = {"at": int(at) if at.isdecimal() else at, "dry_run": dry_run}
        address = f"{url}/v1/admin/tenants/{name}:restore"
        told = call("POST", address, key, body=body, timeout_s=LONG_S)
    moment = datetime.fromtimestamp(told["restored_to"] / 1_000, UTC).isoformat()
    text = (
        f"tenant {name} {'would be' if dry_run else 'is'} as of {moment}:"
        f" {told['documents']} documents, version {told['from_version']} -> {told['version']}"
    )
    result(told, text, as_json=as_json)


tenant.add_command(export_tenant)


@click.group()
def key() -> None:
    """Keys: what a caller shows, shown to you once."""


@key.command("create")
@click.argument("tenant_name", metavar="TENANT")
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    default=("search",),
    show_default=True,
    help="search, sync or admin; repeatable.",
)
@click.option("--label", default="", help="A note for yourself.")
@service_options
@data_option
@json_option
def create_key(
    tenant_name: str,
    scopes: tuple[str, ...],
    label: str,
    url: str | None,
    key: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Create a key for a tenant. Needs an operator key, or the tenant's admin key."""
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        body = {"tenant": tenant_name, "scopes": list(scopes), "label": label}
        made = call("POST", f"{url}/v1/admin/keys", key, body=body)
    result(made, made["key"], as_json=as_json)
