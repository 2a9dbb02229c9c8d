"""Child processes that are started again when they crash and never outlive their parent.

No thread: the owner calls `poll()` from its own loop. The kernel kills a child when the *thread*
that started it ends, so `start`, `poll` and `stop` belong to one thread that lives as long.
"""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from service.errors import SetupError

LOG_BYTES = 8 * 1024 * 1024
#: The first pause before a restart; it doubles with each crash.
FIRST_BACKOFF_MS = 100

_LAUNCHER = Path(__file__).with_name("_launch.py")
_log = logging.getLogger(__name__)


class Child:
    """One supervised child process.

    Attributes:
        restarts: how often it was started again after it had ended by itself.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        *,
        log: Path,
        backoff_ms: int,
        environ: Mapping[str, str] | None = None,
        log_bytes: int = LOG_BYTES,
    ) -> None:
        """Prepare a child; nothing runs yet.

        Args:
            name: for log lines.
            command: program and arguments; no shell.
            log: where its standard output and error go; the older half is kept as `<log>.1`.
            backoff_ms: longest pause before it is started again.
            environ: its environment; this process's own when None.
            log_bytes: how large the log grows before it moves to `<log>.1`.
        """
        self.name = name
        self.restarts = 0
        self._command = list(command)
        self._log = log
        self._log_bytes = log_bytes
        self._backoff_ms = backoff_ms
        self._environ = environ
        self._process: subprocess.Popen[bytes] | None = None
        self._started = 0.0
        self._crashes = 0
        self._next_start: float | None = None

    @property
    def pid(self) -> int | None:
        """Process id while it runs."""
        return self._process.pid if self.running and self._process else None

    @property
    def running(self) -> bool:
        """Is there a live process now?"""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start it.

        Raises:
            SetupError: the log cannot be written or the program cannot be run.
        """
        launch = [sys.executable, "-I", "-S", str(_LAUNCHER), str(os.getpid()), *self._command]
        try:
            self._log.parent.mkdir(parents=True, exist_ok=True)
            with self._log.open("ab") as output:
                self._process = subprocess.Popen(
                    launch,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=self._environ,
                    # A Ctrl-C at the terminal is ours to handle: it must not reach the child first.
                    start_new_session=True,
                )
        except OSError as error:
            raise SetupError(f"cannot start {self.name}: {error}") from error
        self._started = time.monotonic()
        self._next_start = None

    def poll(self) -> bool:
        """Look after it: bound its log, start it again when due. Call this about every 100 ms.

        Returns:
            Whether it runs now.
        """
        self._bound_log()
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None:
            return True
        now = time.monotonic()
        if self._next_start is None:
            lived_ms = (now - self._started) * 1_000
            self._crashes = 1 if lived_ms > self._backoff_ms else self._crashes + 1
            # 2**20 pauses are beyond any bound; the shift must not grow for ever.
            pause_ms = min(FIRST_BACKOFF_MS << min(self._crashes - 1, 20), self._backoff_ms)
            self._next_start = now + pause_ms / 1_000
            _log.warning("%s ended with %s; again in %d ms", self.name, code, pause_ms)
        if now < self._next_start:
            return False
        self.restarts += 1
        self.start()
        return True

    def stop(self, timeout_ms: int) -> int | None:
        """Ask it to end with SIGTERM; kill it after the time.

        Returns:
            Its exit status, negative for a signal; None when it had not been started.
        """
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
            # A stopped process would sleep through its own end.
            process.send_signal(signal.SIGCONT)
        try:
            return process.wait(timeout_ms / 1_000)
        except subprocess.TimeoutExpired:
            _log.error("%s did not end within %d ms; killed", self.name, timeout_ms)
            process.kill()
            return process.wait()

    def _bound_log(self) -> None:
        # The child appends through a descriptor it inherited, so its file is emptied in place;
        # a line written between copy and cut may be lost.
        with contextlib.suppress(FileNotFoundError):
            if self._log.stat().st_size > self._log_bytes:
                shutil.copyfile(self._log, self._log.with_name(self._log.name + ".1"))
                os.truncate(self._log, 0)
