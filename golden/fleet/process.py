"""One role as a real process tree: started, paused, killed and measured as a whole."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import psutil

from service.errors import SetupError, Unavailable

MIB = 1024 * 1024
POLL_S = 0.05


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """What one process holds: unshared share of memory in MiB, descriptors, CPU seconds so far."""

    name: str
    memory_mib: float
    files: int
    cpu_s: float


class Tree:
    """A child process and everything below it.

    Attributes:
        name: for reports and its log's name.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, log: Path, environ: Mapping[str, str]
    ) -> None:
        self.name = name
        self._command = list(command)
        self._log = log
        self._environ = dict(environ)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """Is the top process there?"""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it.

        Raises:
            SetupError: the program cannot be run.
        """
        try:
            with self._log.open("ab") as log:
                self._process = subprocess.Popen(
                    self._command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=os.environ | self._environ,
                    start_new_session=True,
                )
        except OSError as error:
            raise SetupError(f"cannot start {self.name}: {error}") from error

    def stop(self, seconds: float = 40.0) -> None:
        """Ask it to end, and kill what is left after a while."""
        if self._process is None:
            return
        everything = self.processes()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGCONT)
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            _signal(everything, signal.SIGKILL)
            self._process.wait(seconds)

    def send(self, number: signal.Signals, *words: str) -> int:
        """Signal every process of the tree whose command or environment holds all the words.

        Returns:
            How many there were.
        """
        chosen = [each for each in self.processes() if all(w in _described(each) for w in words)]
        _signal(chosen, number)
        if number == signal.SIGKILL and not words and self._process is not None:
            self._process.wait(10)
        return len(chosen)

    def processes(self) -> list[psutil.Process]:
        """The tree, top first."""
        if not self.running or self._process is None:
            return []
        try:
            top = psutil.Process(self._process.pid)
            return [top, *top.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def usage(self) -> Iterator[Usage]:
        """What each process of the tree holds now."""
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                times = process.cpu_times()
                yield Usage(
                    f"{self.name}/{_role(process)}",
                    process.memory_full_info().pss / MIB,
                    process.num_fds(),
                    times.user + times.system,
                )

    def cpu_s(self, *words: str) -> float:
        """CPU seconds so far of the processes whose command or environment holds all the words."""
        spent = 0.0
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if all(word in _described(process) for word in words):
                    times = process.cpu_times()
                    spent += times.user + times.system
        return spent

    def told(self, lines: int = 5) -> str:
        """The end of its log."""
        text = self._log.read_text(errors="replace") if self._log.exists() else ""
        return "\n".join(text.splitlines()[-lines:])


def free_ports(count: int) -> list[int]:
    """So many different TCP ports that nobody listens on now."""
    with contextlib.ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    """Poll until the condition holds.

    Args:
        condition: what to wait for.
        seconds: how long at most.
        what: for the error.

    Raises:
        Unavailable: not in time.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Unavailable(f"waited {seconds:.0f} s for {what}")
        time.sleep(POLL_S)


def _signal(processes: Sequence[psutil.Process], number: signal.Signals) -> None:
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.send_signal(number)


def _described(process: psutil.Process) -> str:
    """Its command line, and which role a web process serves, which only its environment says."""
    try:
        served: str = process.environ().get("MEMLANE_SERVE", "")
        return " ".join(process.cmdline()) + " " + served
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return ""


def _role(process: psutil.Process) -> str:
    described = _described(process)
    for word in ("litestream", "follower", "service.serve", "weed"):
        if word in described:
            return "web" if word == "service.serve" else word
    return "top"
