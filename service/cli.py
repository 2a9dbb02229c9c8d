"""The `memlane` command: assembly only."""

from __future__ import annotations

from importlib.metadata import version

import click

from golden.commands import bench, golden
from golden.fleet_commands import fleet
from service.commands.doctor import doctor
from service.commands.embedder import embedder
from service.commands.index import index
from service.commands.mcp import mcp
from service.commands.models import model
from service.commands.push import push
from service.commands.search import search
from service.commands.sync import sync
from service.commands.tenants import key, tenant
from service.commands.up import reader, up, writer


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(version("memlane"), prog_name="memlane")
def main() -> None:
    """Hosted search over the memory of people who work with AI agents."""


commands = (
    up,
    writer,
    reader,
    embedder,
    model,
    tenant,
    key,
    push,
    sync,
    doctor,
    index,
    search,
    mcp,
    golden,
    bench,
    fleet,
)
for command in commands:
    main.add_command(command)
