"""The backfill: on a writer, gives every document its vectors, a little at a time.

Files are visited in turn, a few documents each, light kinds first. Queries are not held up: the
sidecar serves them first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

from service.errors import MemlaneError
from service.semantic.calls import Calls
from service.semantic.filler import Embedding, Filler, VectorFiles
from service.semantic.sidecar import SidecarError
from service.settings import Settings

#: Between two tries of a sidecar that does not answer.
FAILED_S: Final = 0.5
#: How often the coverage of a file is counted while it is worked on.
LOOK_S: Final = 10.0

_log = logging.getLogger(__name__)


class _Coverage(NamedTuple):
    """What a file had when it was seen, in monotonic seconds."""

    seen: float
    found: dict[str, Any]


class Backfill:
    """One thread of a writer. Enter it to start, leave it to stop.

    Args:
        files: what it works on.
        sidecar: what embeds; closed at the end.
        settings: the limits.
        calls: draws its spans.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        files: VectorFiles,
        sidecar: Embedding,
        settings: Settings,
        *,
        calls: Calls | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.calls: Final = calls or Calls()
        self._files = files
        self._sidecar = sidecar
        self._settings = settings
        self._clock = clock
        self._stop = threading.Event()
        self._news = threading.Condition()
        self._changed: dict[str, None] = {}
        self._failed_visits = 0
        self._filler = Filler(files, sidecar, settings, stop=self._stop, clock=clock)
        self._trouble: str | None = None
        self._model = ""
        self._complete: set[str] = set()
        self._coverage: dict[str, _Coverage] = {}
        self._thread = threading.Thread(target=self._main, name="backfill", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        with self._news:
            self._news.notify_all()
        self._sidecar.close()
        self._thread.join()

    def changed(self, file: str) -> None:
        """A file was written: there may be something to embed."""
        with self._news:
            self._changed[file] = None
            self._news.notify_all()

    def progress(self) -> dict[str, Any]:
        """What was done, what is left, and what keeps it from going on, if anything.

        Returns:
            `{"trouble", "files_waiting", "pending", "oldest_missing_ms", "by_kind": {KIND:
            {"documents", "complete"}}, "failed_visits", ...}` and what `Filler.counts` counts.
        """
        by_kind: dict[str, Counter[str]] = {}
        pending, oldest_ms = 0, 0.0
        now = self._clock()
        for seen, found in list(self._coverage.values()):
            pending += found["pending"]
            if (age_ms := found["oldest_missing_ms"]) is not None:
                oldest_ms = max(oldest_ms, age_ms + (now - seen) * 1_000)
            for kind, row in found["by_kind"].items():
                counts = by_kind.setdefault(kind, Counter())
                counts.update(documents=row["documents"], complete=row["complete"])
        return {
            "trouble": self._trouble,
            "files_waiting": len(self._changed),
            "pending": pending,
            "oldest_missing_ms": round(oldest_ms),
            "by_kind": {kind: dict(counts) for kind, counts in by_kind.items()},
            "failed_visits": self._failed_visits,
            **self._filler.counts,
        }

    # --- the thread

    def _main(self) -> None:
        next_sweep = 0.0
        while not self._stop.is_set():
            if self._clock() >= next_sweep:
                pause_s = self._settings.backfill_sweep_ms / 1_000 if self._sweep() else FAILED_S
                next_sweep = self._clock() + pause_s
            with self._news:
                if self._stop.is_set():
                    return
                if not self._changed:
                    self._news.wait(max(0.0, next_sweep - self._clock()))
                    continue
                file = next(iter(self._changed))
                del self._changed[file]
                self._complete.discard(file)
            if self._visit(file):
                self.changed(file)  # at the end of the line

    def _sweep(self) -> bool:
        """Put every file in line that is not known to be complete; whether that was possible."""
        try:
            model = self._sidecar.info().model
            if model != self._model:
                self._complete.clear()
                self._model = model
            own = self._files.own_files()
        except (MemlaneError, SidecarError) as error:
            self._trouble = f"the files cannot be looked through: {error}"
            return False
        except Exception:
            self._unexpected()
            return False
        with self._news:
            for file in own:
                if file not in self._complete:
                    self._changed.setdefault(file)
        for gone in self._coverage.keys() - set(own):
            del self._coverage[gone]
        return True

    def _visit(self, file: str) -> bool:
        """Advance one file; whether it must be visited again soon."""
        try:
            with self.calls.part("backfill"):
                again = self._filler.advance(file, self._sidecar.info())
            self._look(file, soon=not again)
        except SidecarError as error:
            self._trouble = f"the sidecar answered {error.status}"
            self._stop.wait(FAILED_S)
            return True
        except MemlaneError as error:
            # It moves, is restored or is gone; the next sweep finds it if it is still ours.
            self._trouble = error.detail
            return False
        except Exception:
            self._unexpected()
            return False
        self._trouble = None
        if not again:
            self._complete.add(file)
        return again

    def _unexpected(self) -> None:
        """Called while an error of ours is handled; a closed channel at the end is none."""
        if not self._stop.is_set():
            self._failed_visits += 1
            self._trouble = "an unexpected error, which was logged"
            _log.exception("the backfill failed")
            self._stop.wait(FAILED_S)

    def _look(self, file: str, *, soon: bool) -> None:
        """Note a file's coverage; while it is under way, every so often."""
        known = self._coverage.get(file)
        if known is not None and not soon and self._clock() - known.seen < LOOK_S:
            return
        with self._files.vectors(file) as vectors:
            self._coverage[file] = _Coverage(self._clock(), vectors.coverage())
