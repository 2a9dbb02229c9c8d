"""From a key to painted results: how fast the search page follows somebody who types.

A real service holds the corpus, a real Chromium shows the page, and each query of the set is typed
key by key. A key's time is the browser's own stamp of its input event; results count as painted in
the first task after the frame that holds them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click
import httpx
import orjson

from golden import judged, metrics, tables
from golden.options import (
    ErrorsShown,
    corpora_option,
    folder_of,
    json_option,
    out,
    progress,
    set_option,
)
from service.commands.push import push_file
from service.errors import SetupError, Unavailable

if TYPE_CHECKING:
    from playwright.sync_api import Page

CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
QUERIES: Final = 40
INTERVAL_MS: Final = 120
"""Between two keys: 100 words of five letters a minute, as good typists do."""
PATIENCE_MS: Final = 10_000
STOP_S: Final = 40
ENTRIES_MOST: Final = 100_000

_WATCH = """(entries) => {
  performance.setResourceTimingBufferSize(entries);
  const typed = new Map();
  const hits = document.getElementById("hits");
  const question = document.getElementById("q");
  window.painted = [];
  question.addEventListener("input", (event) => typed.set(question.value, event.timeStamp), true);
  new MutationObserver(() => {
    const value = hits.dataset.answers;
    if (!typed.has(value)) return;
    const at = typed.get(value);
    typed.delete(value);
    requestAnimationFrame(() => {
      const after = new MessageChannel();
      after.port1.onmessage = () => window.painted.push([value, performance.now() - at]);
      after.port2.postMessage(0);
    });
  }).observe(hits, { attributes: true, attributeFilter: ["data-answers"] });
}"""
_REQUESTS = """() => performance.getEntriesByType("resource")
  .filter((entry) => entry.name.endsWith("/v1/search") && entry.responseEnd)
  .map((entry) => entry.responseEnd - entry.startTime)"""


@click.command("page")
@set_option
@corpora_option
@click.option("--first", type=click.IntRange(min=1), default=QUERIES, show_default=True)
@click.option("--interval-ms", default=INTERVAL_MS, show_default=True, help="Between two keys.")
@json_option
def page_command(
    name: str, corpora: Path | None, first: int, interval_ms: int, as_json: bool
) -> None:
    """Type a set's queries into the search page in Chromium: from a key to painted results."""
    with ErrorsShown():
        judged_set = judged.load(folder_of(corpora), name)
        queries = [query.text for query in judged_set.queries[:first]]
        with progress(name, len(queries)) as advance:
            report = {
                "set": name,
                **run(judged_set.corpus, queries, interval_ms=interval_ms, progress=advance),
            }
    out(report, tables.flat(report), as_json=as_json)


def run(
    corpus: Path, queries: Sequence[str], *, interval_ms: int, progress: Callable[[int], None]
) -> dict[str, Any]:
    """Type queries into the page of a service that holds a corpus.

    Returns:
        `{"queries", "keystrokes", "painted", "superseded", "interval_ms", "paint_ms": {p50, p90,
        p99}, "request_ms": {p50, p90, p99}}`. A key is superseded when the next one came before its
        results; `paint_ms` is of those that were painted, `request_ms` of all answered searches.

    Raises:
        SetupError: there is no Chromium, no Playwright, or the service does not start.
        Unavailable: the service does not take the corpus in time.
    """
    with service(corpus) as (url, key), open_page(url) as page:
        page.get_by_label("Key").fill(key)
        page.keyboard.press("Enter")
        page.wait_for_selector("#fresh")
        page.evaluate(_WATCH, ENTRIES_MOST)
        for query in queries:
            _type(page, query, interval_ms)
            progress(1)
        painted: list[tuple[str, float]] = page.evaluate("window.painted")
        request_ms: list[float] = page.evaluate(_REQUESTS)
    keystrokes = sum(map(len, queries))
    return {
        "queries": len(queries),
        "keystrokes": keystrokes,
        "painted": len(painted),
        "superseded": keystrokes - len(painted),
        "interval_ms": interval_ms,
        "paint_ms": metrics.percentiles([ms for _, ms in painted]),
        "request_ms": metrics.percentiles(request_ms),
    }


def chromium() -> str:
    """The browser's program: `MEMLANE_CHROMIUM`, else the first of `CHROMIUM` that is installed.

    Raises:
        SetupError: there is none.
    """
    named = os.environ.get("MEMLANE_CHROMIUM")
    if named:
        return named
    for program in CHROMIUM:
        if found := shutil.which(program):
            return found
    raise SetupError(
        "there is no Chromium on this machine",
        hint="Install it (apt-get install chromium) or name it in MEMLANE_CHROMIUM.",
    )


@contextlib.contextmanager
def open_page(url: str) -> Iterator[Page]:
    """A page of a fresh profile in a headless Chromium."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise SetupError("Playwright is not installed", hint="pip install playwright") from error
    with sync_playwright() as playwright:
        # Without a sandbox: containers run this as root, on pages of our own.
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        try:
            page = browser.new_page()
            page.set_default_timeout(PATIENCE_MS)
            page.goto(url)
            yield page
        finally:
            browser.close()


@contextlib.contextmanager
def service(corpus: Path) -> Iterator[tuple[str, str]]:
    """`memlane up` in a folder of its own, holding a corpus: its reader's address and a key.

    Raises:
        SetupError: it does not start.
        Unavailable: the reader does not get the corpus in time.
    """
    folder = Path(tempfile.mkdtemp(prefix="memlane-page-"))
    command = (*(sys.executable, "-m", "service", "up", "--json"), "--data", str(folder / "data"))
    with (folder / "up.log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--port", str(_free_ports())], stdout=subprocess.PIPE, stderr=log
        )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            told = (folder / "up.log").read_text(errors="replace")[-500:]
            raise SetupError(f"`memlane up` did not start: {told}")
        told = orjson.loads(line)
        summary = push_file(corpus, told["writer_url"], told["key"], quiet=True)
        _wait(told["reader_url"], told["key"], summary.version)
        yield told["reader_url"], told["key"]
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(STOP_S)
        shutil.rmtree(folder, ignore_errors=True)


def _wait(url: str, key: str, version: int) -> None:
    """Until the reader has this version; each call waits for it within the service's deadline."""
    body = {"q": "x", "min_version": version}
    for _ in range(10):
        answer = httpx.post(
            f"{url}/v1/search", json=body, headers={"authorization": f"Bearer {key}"}, timeout=30
        )
        if answer.is_success:
            return
    raise Unavailable(f"the reader did not reach version {version}: {answer.status_code}")


def _type(page: Page, query: str, interval_ms: int) -> None:
    question = page.locator("#q")
    question.press("Escape")
    page.wait_for_function("document.getElementById('hits').dataset.answers === ''")
    question.press_sequentially(query, delay=interval_ms)
    page.wait_for_function(
        "(q) => document.getElementById('hits').dataset.answers === q", arg=query
    )


def _free_ports() -> int:
    """A port that is free, with the next one."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            with contextlib.suppress(OSError, OverflowError):
                second.bind(("127.0.0.1", port + 1))
                return port
