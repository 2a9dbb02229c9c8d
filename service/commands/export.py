"""`memlane tenant export`: a tenant's own file, fetched and checked."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import Any, Final

import click
import httpx

from service.commands.console import (
    connection,
    data_option,
    errors_shown,
    json_option,
    refusal,
    result,
    service_options,
)
from service.errors import SetupError
from service.replica.stamps import read_stamps

READ_S: Final = 120.0
"""Longest pause of the answer: its copy is made before the first byte."""


@click.command("export")
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    required=True,
    help="The file to write.",
)
@click.option("--force", is_flag=True, help="Replace the file if there is one.")
@service_options
@data_option
@json_option
def export_tenant(
    name: str,
    out: Path,
    force: bool,
    url: str | None,
    key: str | None,
    data: Path,
    as_json: bool,
) -> None:
    """Fetch a tenant's SQLite file. Needs an operator key, or the tenant's admin key.

    The file is one moment's, whatever is written meanwhile, and appears under its name only once it
    has passed its check. --url may be a reader's.
    """
    with errors_shown():
        url, key = connection(url, key, data, want="operator")
        if out.exists() and not force:
            raise SetupError(f"{out} is there already", hint="Choose another name, or --force.")
        draft = out.with_name(f".{out.name}.{secrets.token_hex(4)}.tmp")
        try:
            told = _fetch(url, key, name, draft)
            draft.rename(out)
        except OSError as error:
            raise SetupError(f"{out} cannot be written: {error.strerror}") from error
        finally:
            draft.unlink(missing_ok=True)
    told = {"tenant": name, "file": str(out), **told}
    text = (
        f"{out}: version {told['version']}, {told['documents']} documents, {told['bytes']} bytes,"
        f" checked"
    )
    result(told, text, as_json=as_json)


def _fetch(url: str, key: str, name: str, draft: Path) -> dict[str, Any]:
    headers = {"authorization": f"Bearer {key}"}
    timeout = httpx.Timeout(READ_S)
    try:
        with httpx.stream(
            "GET", f"{url}/v1/export", params={"tenant": name}, headers=headers, timeout=timeout
        ) as answer:
            if answer.is_error:
                answer.read()
                raise refusal(answer)
            with draft.open("xb") as file:
                for chunk in answer.iter_bytes():
                    file.write(chunk)
            told = answer.headers
    except httpx.HTTPError as error:
        raise SetupError(
            f"{url} broke off ({type(error).__name__})", hint="Try again; nothing was written."
        ) from error
    version = int(told["memlane-index-version"])
    stamps = read_stamps(draft, check=True)
    if stamps.version != version:
        raise SetupError(f"the file holds version {stamps.version}, version {version} was promised")
    return {
        "version": version,
        "committed_at": stamps.committed_at,
        "documents": int(told["memlane-index-documents"]),
        "bytes": draft.stat().st_size,
        "age_ms": int(told["memlane-index-age-ms"]),
        "quick_check": "ok",
    }
