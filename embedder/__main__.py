"""`python -m embedder`, which is `memlane embedder`."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

import click

from embedder.cache import locate
from embedder.console import errors_shown
from embedder.errors import SetupError
from embedder.limits import CPU_LIMITS, GPU_LIMITS

ADDRESS = "127.0.0.1:50051"


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--model", required=True, help="A model folder, or the name of one that was built here."
)
@click.option("--address", default=ADDRESS, show_default=True, help="host:port or unix:/path.")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where to run; auto takes the GPU where this installation has one.",
)
@click.option("--require-gpu", is_flag=True, help="Refuse to start on anything but a GPU.")
@click.option(
    "--threads",
    type=click.IntRange(1, 256),
    help="Cores to use, one text each.  [default: those of the process's CPU affinity]",
)
@click.option("--passage-batch", type=click.IntRange(1, 256), help="Most passages of one run.")
@click.option("--reflection", is_flag=True, help="Let clients list the calls (grpcurl).")
def main(passage_batch: int | None, **options: Any) -> None:
    """Serve one embedding model over gRPC (memlane.embed.v1.Embedder)."""
    logging.basicConfig(level=logging.INFO, format="memlane: %(message)s")
    with errors_shown():
        asyncio.run(_serve(passage_batch, **options))


async def _serve(
    passage_batch: int | None,
    *,
    model: str,
    address: str,
    device: Any,
    require_gpu: bool,
    threads: int | None,
    reflection: bool,
) -> None:
    try:
        from embedder.model import Model
        from embedder.otlp import exported
        from embedder.runtime import cores
        from embedder.server import Server, Serving
    except ImportError as error:
        raise SetupError(
            f"{error.name} is not installed", hint="Install the extra: memlane[embedder]."
        ) from error
    loaded = Model(locate(model), device=device, require_gpu=require_gpu)
    limits = GPU_LIMITS if loaded.runtime.on_gpu else CPU_LIMITS
    if passage_batch:
        limits = replace(limits, passage_batch=passage_batch)
    lanes = threads or cores()
    serving = Serving(address, lanes=lanes, reflection=reflection)
    with exported() as telemetry:
        server = Server(loaded, serving, limits, telemetry=telemetry)
        await server.start()
        at = (
            address
            if address.startswith("unix:")
            else f"{address.rpartition(':')[0]}:{server.port}"
        )
        logging.getLogger("embedder").info(
            "%s, %d dims, on %s, %d lanes, at %s",
            loaded.id,
            loaded.spec.dims,
            loaded.runtime.provider,
            lanes,
            at,
        )
        await server.wait()


if __name__ == "__main__":
    main(prog_name="memlane embedder")
