"""A real Chromium on a real service: tabs that remember what the console complained about."""

from __future__ import annotations

import dataclasses
import importlib.resources
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from golden.typing_speed import chromium as program
from service.errors import SetupError
from tests.e2e.service import Service, wait_for

ROOT = Path(__file__).parent.parent.parent
SCREENSHOTS = ROOT / "build" / "screenshots"
DESKTOP, PHONE = (1280, 820), (390, 844)
WAIT_MS = 10_000


@dataclasses.dataclass
class Tab:
    """A page and what went wrong on it.

    `complaints` are errors of scripts and of the policy; `refusals` are answers of 400 and more,
    which the browser puts on its console too.
    """

    page: Page
    complaints: list[str] = dataclasses.field(default_factory=list)
    refusals: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))

    def _console(self, message: Any) -> None:
        if message.type not in ("error", "warning"):
            return
        network = message.text.startswith("Failed to load resource")
        (self.refusals if network else self.complaints).append(message.text)

    def screenshot(self, name: str) -> None:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        self.page.screenshot(path=SCREENSHOTS / f"{name}.png")

    def axe(self) -> list[str]:
        """What axe-core finds wrong: rule, then the elements."""
        script = importlib.resources.files("axe_playwright_python") / "axe.min.js"
        self.page.evaluate(f"() => {{ {script.read_text()} }}")
        found = self.page.evaluate("async () => (await axe.run()).violations")
        return [
            f"{each['id']}: {node['target']} {node.get('failureSummary', '')}"
            for each in found
            for node in each["nodes"]
        ]


@pytest.fixture(scope="session")
def installed() -> None:
    """A Chromium is here; without one, tests that need it say so and are left out."""
    try:
        program()
    except SetupError as error:
        pytest.skip(f"{error.detail}: {error.hint}")


@pytest.fixture(scope="module")  # its event loop must be gone before other tests begin theirs
def chromium(installed: None) -> Iterator[Browser]:
    with sync_playwright() as playwright:
        # Without a sandbox: tests run as root in containers, on pages of our own.
        browser = playwright.chromium.launch(executable_path=program(), args=["--no-sandbox"])
        yield browser
        browser.close()


Open = Callable[..., Tab]


@pytest.fixture
def browser(chromium: Browser) -> Iterator[Open]:
    """`browser(url, scheme="light", phone=False)`: a tab of a fresh profile."""
    contexts = []

    def open_tab(
        url: str, *, scheme: Literal["light", "dark"] = "light", phone: bool = False
    ) -> Tab:
        width, height = PHONE if phone else DESKTOP
        context = chromium.new_context(
            viewport={"width": width, "height": height},
            color_scheme=scheme,
            has_touch=phone,
            is_mobile=phone,
            device_scale_factor=2 if phone else 1,
            locale="en-GB",
            timezone_id="UTC",
        )
        context.set_default_timeout(WAIT_MS)
        contexts.append(context)
        tab = Tab(context.new_page())
        tab.page.goto(url)
        return tab

    yield open_tab
    for context in contexts:
        context.close()


DAY_MS = 86_400_000
TOPICS = ("gateway timeout", "rate limit", "key rotation", "depot window", "invoice export")


def memory(now_ms: int) -> Iterator[dict[str, Any]]:
    """A small memory whose order in time is known: the newest of each kind comes first."""
    for number in range(40):
        kind = ("task", "note", "session")[number % 3]
        topic = TOPICS[number % len(TOPICS)]
        yield {
            "kind": kind,
            "ref": f"{kind}-{number:02}",
            "title": f"{topic.capitalize()} {number:02}",
            "summary": f"What was decided about the {topic}.",
            "note": f"The {topic} came up again; see AcmeEventOperator.\nSecond line, plain text.",
            "meta": "project:harbour",
            "updated_at": now_ms - number * DAY_MS,
            "identifiers": [f"HBL-{1000 + number}"],
        }
    yield {
        "kind": "note",
        "ref": "hostile",
        "title": "<img src=x onerror=alert(1)> quokka",
        "summary": "",
        "note": "😀 <script>alert(2)</script> quokka 東京タワー & <b>bold</b>",
        "meta": "",
        "updated_at": now_ms,
        "identifiers": [],
    }


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """`memlane up` with the small memory; shared, so a test that stops it starts it again."""
    service = Service(tmp_path_factory.mktemp("browser"))
    version = service.write(*memory(int(time.time() * 1_000)))
    wait_for(lambda: service.ask("quokka", min_version=version).status_code == 200)
    yield service
    service.stop()
