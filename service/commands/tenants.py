"""`memlane tenant ...` and `memlane key ...`, through the writer's API."""

from __future__ import annotations

from pathlib import Path

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
def tenant() -> None:
    """Tenants: each has its own file and keys."""


@tenant.command("create")
@click.argument("name")
@service_options
@data_option
@json_option
def create_tenant(name: str, url: str | None, key: str | None, data: Path, as_json: bool) -> None:
    """Create a tenant. Needs an operator key."""
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        made = call("POST", f"{url}/v1/admin/tenants", key, body={"name": name})
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
    lines = [f"{one['name']}  {one['state']}" for one in found["tenants"]]
    result(found, "\n".join(lines) or "no tenants", as_json=as_json)


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
