"""`memlane sync` and `memlane doctor` as people run them, against a real service."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

import memlane
from service.cli import main
from tests.e2e.service import Service, wait_for

NOW_MS = int(time.time() * 1_000) - 1_000_000


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("service"))
    yield running
    assert running.stop() == 0


class Tenant:
    """A fresh tenant, and a machine that syncs to it."""

    def __init__(self, service: Service, folder: Path, name: str) -> None:
        self.url = service.writer
        http: httpx.Client = service.tenant(name)
        self.key = http.headers["authorization"].removeprefix("Bearer ")
        http.close()
        self.client = memlane.Client(self.url, self.key)
        self.folder = folder / name
        self.folder.mkdir()
        self.environ = {
            "MEMLANE_URL": self.url,
            "MEMLANE_KEY": self.key,
            "XDG_STATE_HOME": str(self.folder / "state"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
        }

    def run(self, *words: str, **environ: str) -> Any:
        return CliRunner(env=self.environ | environ).invoke(main, words)

    def told(self, *words: str, **environ: str) -> Any:
        found = self.run(*words, "--json", **environ)
        assert found.exit_code == 0, found.output
        return json.loads(found.stdout)

    def started(self, *words: str, **environ: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "service", *words],
            env=os.environ | self.environ | environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def digests(self) -> list[str]:
        return self.client.manifest()["digests"]

    def count(self) -> int:
        return self.client.manifest()["documents"]


def written(path: Path, rows: Mapping[str, tuple[int, str]]) -> Path:
    """A source whose documents have these times and texts, by ref."""
    draft = path.with_suffix(".tmp")
    draft.write_text(
        "".join(
            json.dumps({"kind": "note", "ref": ref, "updated_at": at, "title": text, "note": text})
            + "\n"
            for ref, (at, text) in rows.items()
        )
    )
    draft.rename(path)
    return path


def test_kill_9_in_the_middle_five_times_ends_as_if_nothing_happened(
    service: Service, tmp_path: Path
) -> None:
    dice = random.Random(11)
    tenant, calm = Tenant(service, tmp_path, "killed"), Tenant(service, tmp_path, "calm")
    rows = {f"n{n}": (NOW_MS, f"gateway {n} retries") for n in range(1_200)}
    path = written(tmp_path / "memory.ndjson", rows)
    small = {"MEMLANE_SYNC_BATCH_LINES": "20"}
    killed = 0
    for kill in range(5):
        before = tenant.digests()
        process = tenant.started("sync", str(path), "--yes", "--json", **small)
        try:
            wait_for(
                lambda: tenant.digests() != before or process.poll() is not None,  # noqa: B023
                what="the first batch",
            )
            time.sleep(dice.uniform(0, 0.15))  # somewhere in the middle
            process.send_signal(signal.SIGKILL)
        finally:
            killed += process.wait(30) == -signal.SIGKILL
            assert process.stdout is not None
            process.stdout.close()
        for ref in dice.sample(sorted(rows), 300):  # life goes on
            if dice.random() < 0.5:
                rows[ref] = (NOW_MS + kill + 1, f"edited {kill}")
            else:
                del rows[ref]
        written(path, rows)
    assert killed >= 4, "the runs ended before they were killed"
    tenant.told("sync", str(path), "--yes", **small)
    calm.told("sync", str(path))
    assert tenant.count() == len(rows)
    assert tenant.digests() == calm.digests()
    again = tenant.told("sync", str(path))
    assert again["sources"][0]["lines"] == 0


def test_the_report_is_one_object_and_an_unchanged_sync_is_small(
    service: Service, tmp_path: Path
) -> None:
    tenant = Tenant(service, tmp_path, "report")
    path = written(tmp_path / "memory.ndjson", {f"n{n}": (NOW_MS, "x") for n in range(300)})
    first = tenant.told("sync", str(path))["sources"][0]
    assert (first["type"], first["tenant"], first["documents"]) == ("ndjson", "report", 300)
    assert first["counts"] == {"created": 300}
    again = tenant.told("sync", str(path))["sources"][0]
    assert again["counts"] == {}
    assert again["bytes_sent"] + again["bytes_received"] < 64_000


def test_a_readers_address_will_do(service: Service, tmp_path: Path) -> None:
    tenant = Tenant(service, tmp_path, "by-reader")
    path = written(tmp_path / "memory.ndjson", {f"n{n}": (NOW_MS, "x") for n in range(3)})
    for counts in ({"created": 3}, {}):
        told = tenant.told("sync", str(path), MEMLANE_URL=service.reader)["sources"][0]
        assert told["counts"] == counts


def test_a_shrunken_source_needs_a_yes(service: Service, tmp_path: Path) -> None:
    tenant = Tenant(service, tmp_path, "shrunken")
    path = written(tmp_path / "memory.ndjson", {f"n{n}": (NOW_MS, "x") for n in range(30)})
    tenant.told("sync", str(path))
    written(path, {"n1": (NOW_MS, "x")})
    dry = tenant.told("sync", str(path), "--dry-run")["sources"][0]
    assert dry["counts"] == {"to_send": 0, "to_delete": 29}
    refused = tenant.run("sync", str(path))
    assert refused.exit_code == 1
    assert "1 documents left of 30" in refused.stderr
    assert "--yes" in refused.stderr
    assert tenant.count() == 30
    tenant.told("sync", str(path), "--yes")
    assert tenant.count() == 1


def test_a_config_file_names_all_and_one_bad_source_does_not_keep_the_others(
    service: Service, tmp_path: Path
) -> None:
    tenant = Tenant(service, tmp_path, "configured")
    written(tmp_path / "memory.ndjson", {"a": (NOW_MS, "x")})
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "plan.md").write_text("# Plan")
    (tmp_path / "key").write_text(tenant.key)
    (tmp_path / "broken.db").write_bytes(b"SQLite format 3\0" + b"rubbish" * 100)
    config = tmp_path / "sync.toml"
    config.write_text(
        f'url = "{tenant.url}"\nkey_file = "key"\n'
        '[[source]]\npath = "memory.ndjson"\n[[source]]\npath = "notes"\n'
        '[[source]]\npath = "broken.db"\ntype = "agentkits"\n'
    )
    found = CliRunner(env={"XDG_STATE_HOME": str(tmp_path / "state")}).invoke(
        main, ["sync", "--config", str(config)]
    )
    assert found.exit_code == 0, found.output
    assert "memory.ndjson (ndjson): 1 documents; 1 created" in found.stdout
    assert "skipped: broken.db: not a SQLite file, or damaged" in found.stdout
    assert tenant.count() == 2


def test_watching_follows_changes_until_it_is_stopped(service: Service, tmp_path: Path) -> None:
    tenant = Tenant(service, tmp_path, "watched")
    path = written(tmp_path / "memory.ndjson", {"a": (NOW_MS, "x"), "b": (NOW_MS, "x")})
    process = tenant.started("sync", str(path), "--watch", "--json", MEMLANE_SYNC_POLL_MS="50")
    try:
        wait_for(lambda: tenant.count() == 2, what="the first documents")
        written(path, {f"c{n}": (NOW_MS, "x") for n in range(3)} | {"a": (NOW_MS, "x")})
        wait_for(lambda: tenant.count() == 4, what="the change")
        path.unlink()  # as an editor does for a moment
        time.sleep(0.2)
        written(path, {f"c{n}": (NOW_MS, "x") for n in range(4)} | {"a": (NOW_MS, "x")})
        wait_for(lambda: tenant.count() == 5, what="the change after the file was gone")
        assert process.stdout is not None
        told: list[dict[str, Any]] = []
        while sum(each["counts"].get("created", 0) for each in told) < 6:
            told.append(json.loads(process.stdout.readline()))
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 0
    assert told[0]["counts"] == {"created": 2}
    assert sum(each["counts"].get("created", 0) for each in told) == 6


def test_the_doctor_finds_everything_well(service: Service, tmp_path: Path) -> None:
    tenant = Tenant(service, tmp_path, "well")
    path = written(tmp_path / "memory.ndjson", {"a": (NOW_MS, "x")})
    told = tenant.told("doctor", str(path))
    verdicts = {check["name"]: check["verdict"] for check in told["checks"]}
    assert set(verdicts.values()) == {"ok"}
    assert {"address", "readiness", "clock", "versions", "key for sync", "key for search"} <= set(
        verdicts
    )
    assert f"source {path}" in verdicts


def test_the_doctor_says_what_is_wrong_and_what_to_do(service: Service, tmp_path: Path) -> None:
    tenant = Tenant(service, tmp_path, "ill")
    path = tmp_path / "memory.ndjson"
    path.write_text('{"kind":"note","ref":"a"}\n{oops\n')
    found = tenant.run("doctor", str(path), str(tmp_path / "none"), MEMLANE_KEY="ml_wrong")
    assert found.exit_code == 1
    assert "FAILED  key for sync" in found.output
    assert "1 skipped, first memory.ndjson line 2: not JSON" in found.output
    assert f"FAILED  source {tmp_path / 'none'}" in found.output
    nobody = tenant.run("doctor", MEMLANE_URL="http://127.0.0.1:1")
    assert nobody.exit_code == 1
    assert "does not answer" in nobody.output


def test_the_shell_completes_commands_options_and_types() -> None:
    def completed(words: str) -> str:
        environ = {
            "_MEMLANE_COMPLETE": "bash_complete",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        }
        return CliRunner(env=environ).invoke(main, prog_name="memlane").output

    assert "sync" in completed("memlane sy")
    assert "--dry-run" in completed("memlane sync --dr")
    assert "open-walnut" in completed("memlane sync --type o")
