"""`memlane up`, `memlane writer`, `memlane reader`: processes that stay."""

from __future__ import annotations

import logging
import time
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from service.commands.console import call, data_option, errors_shown, json_option, result, say
from service.commands.push import push_file
from service.errors import SetupError
from service.roles.embedder import EmbedderRole, is_address
from service.roles.folders import Folders, note_node, read_node
from service.roles.reader import ReaderRole
from service.roles.up import Role, keep, running
from service.roles.writer import WriterRole
from service.settings import Settings
from service.tenancy.placements import MAIN

HOST = "127.0.0.1"
PORT = 8080
TENANT = "demo"
KEY_TRAVELS_S = 30.0
DEMO_QUERY = "kind event operator reconciler"

_host = click.option("--host", default=HOST, show_default=True, help="Address to listen on.")
_store = click.option(
    "--store",
    envvar="MEMLANE_STORE",
    help="Object store: a folder, or s3://bucket/prefix?endpoint=...&region=...  [default:"
    " DATA/store]",
)
_embedder = click.option(
    "--embedder",
    envvar="MEMLANE_EMBEDDER",
    help="HOST:PORT of an embedding sidecar [env: MEMLANE_EMBEDDER].  [default: none]",
)
_own_embedder = click.option(
    "--embedder",
    envvar="MEMLANE_EMBEDDER",
    help="HOST:PORT of an embedding sidecar, or a model (a folder, or a name that `memlane model"
    " build` knows) to start one with, on the port +2 [env: MEMLANE_EMBEDDER].  [default: none]",
)


@click.command()
@data_option
@_host
@_store
@_own_embedder
@click.option("--port", default=PORT, show_default=True, help="Reader's port; the writer's is +1.")
@click.option("--demo", is_flag=True, help="Load the demo memory and ask it something.")
@json_option
def up(
    data: Path,
    host: str,
    store: str | None,
    embedder: str | None,
    port: int,
    demo: bool,
    as_json: bool,
) -> None:
    """Run everything on this machine, with a folder as object store unless told otherwise."""
    _log()
    with errors_shown():
        folders, settings = Folders(data), Settings.from_environment()
        place = store or str(folders.store)
        sidecars = []
        if embedder is not None and not is_address(embedder):
            log = folders.data / "embedder.log"
            own = EmbedderRole(embedder, host=host, port=port + 2, log=log, settings=settings)
            sidecars, embedder = [own], own.address
        writer = WriterRole(
            folders,
            store=place,
            host=host,
            port=port + 1,
            settings=settings,
            embedder=embedder,
        )
        reader = ReaderRole(
            folders.reader,
            store=place,
            secret=folders.secret,
            host=host,
            port=port,
            writer_url=writer.url,
            settings=settings,
            embedder=embedder,
        )
        with running(*sidecars, writer, reader) as stop:
            if stop.is_set:
                return
            noted = _note(folders, writer, reader)
            _wait_known(reader.url, noted["key"], writer, reader)
            shown = {name: noted[name] for name in ("url", "reader_url", "writer_url")}
            shown |= {"tenant": TENANT, "key": noted["key"]}
            if as_json:
                result(shown, "", as_json=True)
            else:
                _introduce(shown)
            if demo:
                _demo(shown)
            keep(stop, *sidecars, writer, reader)
            say("memlane: stopping")


@click.command()
@data_option
@_host
@_store
@_embedder
@click.option("--port", default=PORT + 1, show_default=True, help="Port to listen on.")
@click.option("--shard", default=MAIN, show_default=True, help="Which tenants' files it owns.")
@click.option("--url", help="Where others reach it, told to misled callers.  [default: host:port]")
def writer(
    data: Path,
    host: str,
    store: str | None,
    embedder: str | None,
    port: int,
    shard: str,
    url: str | None,
) -> None:
    """Take batches, own a shard's tenants' files, replicate them."""
    _log()
    with errors_shown():
        folders, settings = Folders(data), Settings.from_environment()
        role = WriterRole(
            folders,
            store=store or str(folders.store),
            host=host,
            port=port,
            settings=settings,
            shard=shard,
            public_url=url,
            embedder=embedder,
        )
        with running(role) as stop:
            note_node(folders, writer_url=role.url)
            say(f"memlane: writer at {role.url}")
            keep(stop, role)


@click.command()
@data_option
@_host
@_store
@_embedder
@click.option("--cache", type=click.Path(path_type=Path), help="[default: DATA/reader]")
@click.option("--secret", type=click.Path(path_type=Path), help="[default: DATA/secret]")
@click.option("--port", default=PORT, show_default=True, help="Port to listen on.")
@click.option("--writer-url", help="The writer's address, told to callers that want to write.")
def reader(
    data: Path,
    host: str,
    store: str | None,
    embedder: str | None,
    cache: Path | None,
    secret: Path | None,
    port: int,
    writer_url: str | None,
) -> None:
    """Answer from replicas of the object store; holds nothing that cannot be fetched again."""
    _log()
    with errors_shown():
        folders = Folders(data)
        role = ReaderRole(
            cache or folders.reader,
            store=store or str(folders.store),
            secret=secret or folders.secret,
            host=host,
            port=port,
            writer_url=writer_url,
            settings=Settings.from_environment(),
            embedder=embedder,
        )
        with running(role) as stop:
            say(f"memlane: reader at {role.url}")
            keep(stop, role)


def _log() -> None:
    logging.basicConfig(level=logging.WARNING, format="memlane: %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)


def _note(folders: Folders, writer: WriterRole, reader: ReaderRole) -> dict[str, Any]:
    """Note the addresses; make the first tenant and its key when there is none."""
    noted = read_node(folders)
    operator = folders.operator_key.read_text().strip()
    known = call("GET", f"{writer.url}/v1/admin/tenants", operator)["tenants"]
    key = noted.get("key")
    if TENANT not in [tenant["name"] for tenant in known]:
        call("POST", f"{writer.url}/v1/admin/tenants", operator, body={"name": TENANT})
        key = None
    if key is None:
        scopes = ["search", "sync", "admin"]
        body = {"tenant": TENANT, "scopes": scopes, "label": "first"}
        key = call("POST", f"{writer.url}/v1/admin/keys", operator, body=body)["key"]
    note_node(
        folders,
        url=reader.url,
        reader_url=reader.url,
        writer_url=writer.url,
        key=key,
        tenant=TENANT,
    )
    return read_node(folders)


def _wait_known(url: str, key: str, *roles: Role) -> None:
    """Wait until the key has travelled to the reader, so that what is printed works at once.

    The roles are looked after meanwhile: one whose process ends just now is started again.
    """
    deadline = time.monotonic() + KEY_TRAVELS_S
    while True:
        for role in roles:
            role.poll()
        try:
            call("GET", f"{url}/v1/index", key)
        except SetupError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return


def _introduce(shown: dict[str, Any]) -> None:
    say(
        f"Memlane is up.\n  search   {shown['url']}\n  write    {shown['writer_url']}\n"
        f"  tenant   {shown['tenant']}\n  key      {shown['key']}\n\n"
        f"  curl -s {shown['url']}/v1/search -H 'Authorization: Bearer {shown['key']}' \\\n"
        f"    -H 'Content-Type: application/json' -d '{{\"q\": \"{DEMO_QUERY}\"}}'\n"
    )


def _demo(shown: dict[str, Any]) -> None:
    """Load the demo memory through the front door and ask the reader, as anybody would."""
    path = Path(str(files("golden").joinpath("demo.ndjson")))
    summary = push_file(path, shown["writer_url"], shown["key"], quiet=False)
    body = {"q": DEMO_QUERY, "limit": 3, "min_version": summary.version}
    answer = call("POST", f"{shown['url']}/v1/search", shown["key"], body=body)
    say(f"\n$ memlane search {DEMO_QUERY!r}   # answered by the reader")
    for hit in answer["hits"]:
        say(f"  {hit['score']:.3f}  {hit['kind']:<8} {hit['ref']:<24} {hit['title']}")
    index, semantic = answer["index"], answer["semantic"]
    say(
        f"  version {index['version']}, {index['docs']} documents, {index['age_ms']} ms old;"
        f" semantic: {semantic['state']} ({semantic['reason']})\n\nCtrl-C stops everything."
    )
