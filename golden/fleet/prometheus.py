"""A real Prometheus with the deployment's own rules, for the time of a run.

Debian's takes no OTLP, so a stand-in for the collector stands between; see `collector`.
"""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import httpx

from golden.fleet.collector import METRICS, Collector
from golden.fleet.process import Tree, free_ports, wait_for
from service.errors import SetupError, Unavailable

RULES: Final = Path(__file__).parents[2] / "deploy" / "prometheus" / "rules"
INTERVAL_S: Final = 5
"""Between two scrapes, and two evaluations, as in `deploy/prometheus/prometheus.yml`."""
START_S: Final = 60.0
CALL_S: Final = 10.0


@dataclasses.dataclass(frozen=True, slots=True)
class Alert:
    """A rule as Prometheus loaded it."""

    name: str
    expression: str
    state: str


class Prometheus:
    """A running one.

    Attributes:
        version: of the program.
        endpoint: where metrics are sent to over OTLP/HTTP.
    """

    def __init__(self, url: str, version: str, endpoint: str) -> None:
        self.version = version
        self.endpoint = endpoint
        self._http = httpx.Client(base_url=url, timeout=CALL_S, trust_env=False)

    def alerts(self) -> list[Alert]:
        """All alerting rules, with what Prometheus itself makes of them now."""
        groups = self._get("/api/v1/rules", {"type": "alert"})["groups"]
        return [
            Alert(rule["name"], rule["query"], rule["state"])
            for group in groups
            for rule in group["rules"]
        ]

    def holds(self, expression: str) -> bool:
        """Whether an expression gives anything now."""
        return bool(self._get("/api/v1/query", {"query": expression})["result"])

    def value(self, expression: str) -> float | None:
        """An expression's one value; None when it gives nothing."""
        found = self._get("/api/v1/query", {"query": expression})["result"]
        return float(found[0]["value"][1]) if found else None

    def names(self) -> set[str]:
        """Names of all series there are."""
        return set(self._get("/api/v1/label/__name__/values", {}))

    @property
    def ready(self) -> bool:
        """It answers."""
        try:
            return self._http.get("/-/ready").is_success
        except httpx.HTTPError:
            return False

    def _get(self, path: str, query: Mapping[str, str]) -> Any:
        answer = self._http.get(path, params=dict(query))
        if not answer.is_success:
            raise Unavailable(f"Prometheus answered {answer.status_code}: {answer.text[:200]}")
        return answer.json()["data"]


@contextmanager
def running(folder: Path, program: str | None = None) -> Iterator[Prometheus]:
    """Start it, and what it scrapes.

    Args:
        folder: for its data and log.
        program: its path; None for the one that is installed.

    Raises:
        SetupError: it is not installed, or the rules are not here.
        Unavailable: it does not come up.
    """
    path = shutil.which(program or "prometheus")
    if path is None:
        raise SetupError("Prometheus is not installed", hint="apt-get install prometheus")
    if not RULES.is_dir():
        raise SetupError("the rules are not here", hint="Run this in a checkout of the project.")
    version = _version(path)
    (port,) = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with ExitStack() as stack:
        collector = stack.enter_context(Collector())
        tree = Tree(
            "prometheus",
            [
                path,
                f"--config.file={_configuration(folder, collector.target)}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            log=folder / "prometheus.log",
            environ={},
        )
        tree.start()
        stack.callback(tree.stop)
        started = Prometheus(url, version, collector.url + METRICS)

        def ready() -> bool:
            if not tree.running:
                raise Unavailable(f"Prometheus ended: {tree.told()}")
            return started.ready

        wait_for(ready, START_S, "Prometheus")
        yield started


def _version(path: str) -> str:
    """What the program says of itself, such as `2.42.0`.

    Raises:
        SetupError: it is no Prometheus.
    """
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"prometheus, version (\d+\.\d+[.\d]*)", told.stdout + told.stderr)
    if found is None:
        raise SetupError(f"{path} is no Prometheus", hint="apt-get install prometheus")
    return found[1]


def _configuration(folder: Path, target: str) -> Path:
    """The deployment's rules and intervals."""
    lines = [
        "global:",
        f"  scrape_interval: {INTERVAL_S}s",
        f"  evaluation_interval: {INTERVAL_S}s",
        f"rule_files: ['{RULES}/*.yml']",
        "scrape_configs:",
        "  - job_name: collector",
        "    honor_labels: true",
        f"    static_configs: [{{targets: ['{target}']}}]",
    ]
    path = folder / "prometheus.yml"
    path.write_text("\n".join(lines) + "\n")
    return path


def first_true(
    prometheus: Prometheus, alerts: list[Alert], began: float, seen: dict[str, float]
) -> None:
    """Note which expressions hold now and did not before, in seconds since a moment."""
    for alert in alerts:
        if alert.name not in seen and prometheus.holds(alert.expression):
            seen[alert.name] = round(time.monotonic() - began, 1)
