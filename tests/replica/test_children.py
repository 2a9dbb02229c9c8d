from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from service.errors import SetupError
from service.replica import FolderLock
from service.replica.children import Child
from tests.replica.world import eventually

SLEEP = [sys.executable, "-S", "-c", "import time; print('up', flush=True); time.sleep(60)"]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_crashed_child_comes_back(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEP, log=tmp_path / "log", backoff_ms=50)
    child.start()
    first = child.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    eventually(lambda: child.poll() and child.pid != first, "a new process")
    assert child.restarts == 1
    assert child.stop(5_000) == -signal.SIGTERM
    assert child.pid is None


def test_a_child_that_crashes_at_once_is_not_started_in_a_loop(tmp_path: Path) -> None:
    child = Child(
        "crasher", [sys.executable, "-S", "-c", ""], log=tmp_path / "l", backoff_ms=60_000
    )
    child.start()
    began = time.monotonic()
    eventually(lambda: child.poll() is False and child.restarts >= 2, "two restarts")
    # Pauses of 100 and 200 ms came before the second restart.
    assert time.monotonic() - began >= 0.3
    child.stop(1_000)


def test_a_stopped_process_can_still_be_drained(tmp_path: Path) -> None:
    child = Child("sleeper", SLEEP, log=tmp_path / "log", backoff_ms=50)
    child.start()
    eventually(lambda: b"up" in (tmp_path / "log").read_bytes(), "the program runs")
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSTOP)
    assert child.stop(10_000) == -signal.SIGTERM


def test_a_child_that_ignores_the_request_is_killed(tmp_path: Path) -> None:
    stubborn = "import signal, time; signal.signal(15, 1); print('up', flush=True); time.sleep(60)"
    child = Child("stubborn", [sys.executable, "-c", stubborn], log=tmp_path / "l", backoff_ms=50)
    child.start()
    eventually(lambda: b"up" in (tmp_path / "l").read_bytes(), "the program runs")
    assert child.stop(100) == -signal.SIGKILL


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
def test_kill_minus_nine_of_the_parent_leaves_no_orphan(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from service.replica.children import Child;"
        f"child = Child('c', {SLEEP!r}, log=Path({str(tmp_path / 'log')!r}), backoff_ms=50);"
        "child.start(); print(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    eventually(lambda: b"up" in (tmp_path / "log").read_bytes(), "the grandchild runs")
    assert alive(pid)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    eventually(lambda: not alive(pid), "the grandchild is gone")


def test_a_log_is_bounded_and_its_last_part_is_kept(tmp_path: Path) -> None:
    log = tmp_path / "log"
    noisy = "import sys\nfor n in range(2000): print(n, 'x' * 90, flush=True)\ninput()"
    child = Child(
        "noisy", [sys.executable, "-c", noisy], log=log, backoff_ms=60_000, log_bytes=20_000
    )
    child.start()
    eventually(lambda: not child.poll(), "it ends: there is no input")
    child.poll()
    assert log.stat().st_size <= 20_000
    assert (tmp_path / "log.1").exists()
    child.stop(1_000)


def test_a_folder_serves_one_process(tmp_path: Path) -> None:
    with FolderLock(tmp_path / "lock", what="a writer's data"):
        with pytest.raises(SetupError) as caught:
            FolderLock(tmp_path / "lock", what="a writer's data")
        assert caught.value.hint
    FolderLock(tmp_path / "lock", what="a writer's data").close()
