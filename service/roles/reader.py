"""The reader role: a follower that keeps replicas, and web processes that answer from them."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.types import ASGIApp

from service.app import create_reader_app
from service.node.replicas import Replicas
from service.replica import Child, store_url
from service.roles.web import wait_answering, web_child
from service.semantic.lane import open_lane
from service.serve import ServeOptions
from service.settings import Settings
from service.telemetry.replicas import Activations, observe_freshness
from service.telemetry.searches import SearchTelemetry
from service.tenancy.secret import load_secret
from service.tenancy.view import RegistryView

START_MS = 60_000


class ReaderRole:
    """A reader on this machine. `start`, `poll` and `stop` belong to one thread."""

    def __init__(
        self,
        cache: Path,
        *,
        store: str,
        secret: Path,
        host: str,
        port: int,
        writer_url: str | None,
        settings: Settings,
        embedder: str | None = None,
    ) -> None:
        """Prepare.

        Args:
            cache: this reader's own folder; disposable.
            store: the object store's URL; see `replica/stores.py`.
            secret: the deployment's key secret.
            host: the address to listen on.
            port: the port to listen on.
            writer_url: where batches are sent on to; None answers them with where to go.
            settings: the limits.
            embedder: `host:port` of the embedding sidecar; None where there is none.
        """
        self.url = f"http://{host}:{port}"
        self._cache = cache.absolute()
        self._settings = settings
        self._config = {
            "cache": str(self._cache),
            "secret": str(secret.absolute()),
            "writer_url": writer_url,
            "embedder": embedder,
        }
        self._follow = {"cache": str(self._cache), "store": store_url(store)}
        self._host, self._port = host, port
        self._secret = secret
        self._children: list[Child] = []

    def start(self) -> None:
        """Bring the role up, until it answers.

        Raises:
            SetupError: the port is taken, the secret is missing.
            Unavailable: it did not become ready in time.
        """
        load_secret(self._secret)
        log = self._cache / "web.log"
        options = ServeOptions(
            factory="service.roles.reader:create_app",
            config=self._config,
            host=self._host,
            port=self._port,
            workers=self._settings.reader_workers,
            drain_ms=self._settings.drain_ms,
        )
        web = web_child("reader", options, log=log, settings=self._settings)
        follower = Child(
            "follower",
            [sys.executable, "-m", "service.roles.follower"],
            log=self._cache / "follower.log",
            backoff_ms=self._settings.child_backoff_ms,
            environ=os.environ | {"MEMLANE_FOLLOW": json.dumps(self._follow)},
        )
        for child in (follower, web):
            child.start()
            self._children.append(child)
        wait_answering(self.url, "/readyz", timeout_ms=START_MS, poll=self.poll, log=log)

    def poll(self) -> None:
        """Look after the children; call about every 100 ms."""
        for child in self._children:
            child.poll()

    def stop(self) -> None:
        """Finish queries under way and end."""
        for child in reversed(self._children):
            child.stop(self._settings.drain_ms)


def create_app(config: Mapping[str, Any]) -> ASGIApp:
    """The web process's application; gunicorn calls this after the fork."""
    settings = Settings.from_environment()
    cache = Path(config["cache"])
    replicas = Replicas(cache, settings)
    view = RegistryView(
        replicas.registry_path, load_secret(Path(config["secret"])), clean=replicas.registry_clean
    )

    def observe(telemetry: SearchTelemetry) -> None:
        observe_freshness(telemetry.meter, replicas.vitals)
        replicas.opened = Activations(telemetry.meter).opened

    return create_reader_app(
        settings=settings,
        files=replicas,
        view=view,
        counters=cache / "counters",
        resources=[replicas],
        writer_url=config["writer_url"],
        lane=open_lane(config["embedder"], settings),
        observe=observe,
    )
