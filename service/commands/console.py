"""What the commands share: errors as two lines, results as text or JSON, where the service is."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import httpx
import orjson

import memlane
from service.errors import MemlaneError, SetupError
from service.roles.folders import Folders, read_node

DATA_DEFAULT = "memlane-data"
TIMEOUT_S = 30.0

Command = TypeVar("Command", bound=Callable[..., Any])


def data_option(command: Command) -> Command:
    """`--data`."""
    return click.option(
        "--data",
        type=click.Path(path_type=Path, file_okay=False),
        default=DATA_DEFAULT,
        show_default=True,
        envvar="MEMLANE_DATA",
        help="Data folder.",
    )(command)


def service_options(command: Command) -> Command:
    """`--url` and `--key`."""
    key = click.option("--key", envvar="MEMLANE_KEY", help="API key [env: MEMLANE_KEY].")
    url = click.option("--url", envvar="MEMLANE_URL", help="Service address [env: MEMLANE_URL].")
    return url(key(command))


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON object on stdout.")


@contextmanager
def errors_shown() -> Iterator[None]:
    """Turn our errors into two lines on stderr and exit status 1."""
    try:
        yield
    except (MemlaneError, memlane.MemlaneError) as error:
        say(f"memlane: {error.detail}")
        if error.hint:
            say(f"  {error.hint}")
        raise click.exceptions.Exit(1) from None


def say(text: str) -> None:
    """Tell the person at the terminal; stdout stays for results."""
    click.echo(text, err=True)


def result(value: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print a command's result."""
    if as_json:
        sys.stdout.buffer.write(orjson.dumps(value) + b"\n")
        sys.stdout.buffer.flush()
    else:
        click.echo(text)


def connection(url: str | None, key: str | None, data: Path, *, want: str) -> tuple[str, str]:
    """Where to ask, and with what: given, or noted by the roles that run on this machine.

    Args:
        url: what the user gave.
        key: what the user gave.
        data: the data folder whose roles may be asked.
        want: `reader`, `writer` (both with the tenant's key) or `operator`.

    Raises:
        SetupError: neither given nor noted.
    """
    folders = Folders(data)
    noted = read_node(folders)
    url = url or noted.get("reader_url" if want == "reader" else "writer_url")
    if key is None and want == "operator" and folders.operator_key.exists():
        key = folders.operator_key.read_text().strip()
    elif key is None:
        key = noted.get("key")
    if url is None or key is None:
        missing = "--url" if url is None else "--key"
        raise SetupError(
            f"{missing} is not given, and no role that runs in {data} noted it",
            hint=f"Give {missing}, or start `memlane up --data {data}` first.",
        )
    return url.rstrip("/"), key


def call(
    method: str,
    url: str,
    key: str,
    *,
    body: dict[str, Any] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Any:
    """One call of the API.

    Raises:
        SetupError: no answer, or one that is an error, with its own words.
    """
    # Once: a person at a terminal would rather know, and not every call may be repeated.
    limits = memlane.Limits(attempts=1, timeout_s=timeout_s)
    try:
        with memlane.Client(url, key, limits=limits) as client:
            return client.call(method, "", body)
    except memlane.Refused as error:
        raise SetupError(f"{error.status}: {error.detail}", hint=error.hint) from None
    except memlane.MemlaneError as error:
        raise SetupError(error.detail, hint=error.hint) from error


def refusal(answer: httpx.Response) -> SetupError:
    """An answer that is an error, in its own words; its body was read."""
    try:
        told = answer.json()
    except ValueError:
        told = {}
    return SetupError(
        f"{answer.status_code}: {told.get('detail', 'no reason given')}",
        hint=str(told.get("hint", "")),
    )
