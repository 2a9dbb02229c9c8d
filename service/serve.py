"""Running one role under gunicorn: several workers that share a port.

The application is named, not passed: each worker imports its factory and builds everything of its
own after the fork. `python -m service.serve` takes its options as JSON from `MEMLANE_SERVE`, which
is how `memlane up` starts its children.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import logging
import os
import socket
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, cast

from gunicorn.app.base import BaseApplication  # type: ignore[import-untyped]
from starlette.types import ASGIApp

from service.errors import InvalidSetting, MemlaneError, SetupError

ENVIRONMENT: Final = "MEMLANE_SERVE"
REQUEST_LINE_BYTES: Final = 8_190
"""The longest that gunicorn allows to ask for: a `GET` search carries its query here."""

Factory = Callable[[Mapping[str, Any]], ASGIApp]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServeOptions:
    """How to run a role.

    Attributes:
        factory: `module:function`; called with `config` in each worker.
        config: what the factory needs; plain JSON values.
        host: the address to listen on.
        port: the port to listen on.
        workers: how many processes serve.
        keepalive_s: how long an idle connection stays open; also how long one may hold up a stop.
        drain_ms: longest that a stop waits for requests under way.
        silence_s: how long a worker's event loop, or a sender, may be silent.
        log_level: gunicorn's own messages, on standard error.
        access_log: one line of JSON a request, on standard error.
    """

    factory: str
    config: Mapping[str, Any]
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 2
    keepalive_s: int = 5
    drain_ms: int = 15_000
    silence_s: int = 30
    log_level: str = "warning"
    access_log: bool = False

    def to_json(self) -> str:
        """For `MEMLANE_SERVE`."""
        return json.dumps(dataclasses.asdict(self))

    @classmethod
    def from_json(cls, text: str) -> ServeOptions:
        """The other way round.

        Raises:
            InvalidSetting: it is not what `to_json` gives.
        """
        try:
            return cls(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise InvalidSetting(f"{ENVIRONMENT} does not hold options of this role") from error


def serve(options: ServeOptions) -> NoReturn:
    """Serve until SIGTERM or SIGINT; then finish what is under way and exit with 0.

    Raises:
        SetupError: the port is taken, or the address is not this machine's.
    """
    check_port(options.host, options.port)
    _Server(options).run()
    raise SystemExit(0)


def check_port(host: str, port: int) -> None:
    """See that a port can be listened on, before anything else is started.

    Raises:
        SetupError: it cannot, with what to do.
    """
    try:
        address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, target = address[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
            probe.listen(1)
    except OSError as error:
        raise SetupError(
            f"cannot listen on {host} port {port}: {error.strerror}",
            hint=f"Choose another with --port; `ss -ltnp sport = :{port}` shows who has it.",
        ) from error


def load_factory(name: str) -> Factory:
    """Import `module:function`.

    Raises:
        SetupError: there is no such function.
    """
    module, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise SetupError(f"there is no application factory {name}") from error
    return cast("Factory", found)


class _Server(BaseApplication):  # type: ignore[misc]  # gunicorn is untyped
    """gunicorn, told everything by `ServeOptions` and nothing by files or arguments."""

    def __init__(self, options: ServeOptions) -> None:
        self._options = options
        super().__init__()

    def load_config(self) -> None:
        options = self._options
        host = f"[{options.host}]" if ":" in options.host else options.host
        settings = {
            "bind": f"{host}:{options.port}",
            "workers": options.workers,
            "worker_class": "asgi",
            "asgi_lifespan": "on",
            "keepalive": options.keepalive_s,
            "graceful_timeout": -(-options.drain_ms // 1_000),
            "timeout": options.silence_s,
            "limit_request_line": REQUEST_LINE_BYTES,
            "loglevel": options.log_level,
            "accesslog": None,
            "control_socket_disable": True,
            "proc_name": "memlane",
        }
        for name, value in settings.items():
            self.cfg.set(name, value)

    def load(self) -> ASGIApp:
        """In each worker, after the fork."""
        logging.basicConfig(level=logging.WARNING, format="%(message)s")
        if self._options.access_log:
            logging.getLogger("memlane.access").setLevel(logging.INFO)
        return load_factory(self._options.factory)(self._options.config)


def main() -> NoReturn:
    """`python -m service.serve`."""
    try:
        serve(ServeOptions.from_json(os.environ.get(ENVIRONMENT, "")))
    except MemlaneError as error:
        print(f"memlane: {error.detail}\n{error.hint}", file=sys.stderr)  # noqa: T201
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
