"""The search page as a person uses it."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.service import Service, wait_for

Open = Callable[..., Any]


def enter(tab: Any, service: Service) -> Page:
    page: Page = tab.page
    page.get_by_label("Key").fill(service.told["key"])
    page.get_by_role("button", name="Open my memory").click()
    expect(page.locator("#q")).to_be_focused()
    expect(page.locator("#fresh")).to_contain_text("documents")
    return page


@pytest.fixture
def tab(browser: Open, service: Service) -> Any:
    return browser(service.reader)


@pytest.fixture
def page(tab: Any, service: Service) -> Page:
    return enter(tab, service)


def answered(page: Page, q: str) -> None:
    expect(page.locator("#hits")).to_have_attribute("data-answers", q)


def ask(page: Page, q: str) -> None:
    page.locator("#q").fill(q)
    answered(page, q)


def titles(page: Page) -> list[str]:
    return page.locator(".hit h2").all_inner_texts()


def test_a_key_is_given_once_and_stays_out_of_reach(tab: Any, service: Service) -> None:
    page = enter(tab, service)
    assert service.told["tenant"] == page.locator("#tenant").inner_text()
    page.reload()
    expect(page.locator("#q")).to_be_focused()
    assert page.evaluate("document.cookie") == ""
    (cookie,) = page.context.cookies()
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    assert service.told["key"] not in cookie["value"]
    ask(page, "gateway")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("Key")).to_be_focused()
    assert page.context.cookies() == []
    page.go_back()
    expect(page.get_by_label("Key")).to_be_focused()
    assert titles(page) == []
    assert tab.complaints == []
    assert tab.refusals == []


def test_a_bad_key_is_refused_in_words_and_the_next_one_is_taken(
    tab: Any, service: Service
) -> None:
    page = tab.page
    page.get_by_label("Key").fill("ml_search_nonsense")
    page.get_by_role("button", name="Open my memory").click()
    expect(page.get_by_role("alert")).to_contain_text("not well-formed")
    expect(page.locator("#q")).to_be_hidden()
    assert tab.axe() == []
    tab.screenshot("bad-key")
    enter(tab, service)
    assert tab.complaints == []


def test_results_come_while_typing_and_matches_are_marked(tab: Any, service: Service) -> None:
    page = enter(tab, service)
    page.keyboard.type("gateway timeout", delay=15)
    answered(page, "gateway timeout")
    assert all(title.startswith("Gateway timeout") for title in titles(page)[:8])
    marks = {text.lower() for text in page.locator(".snippet mark").all_inner_texts()}
    assert {"gateway", "timeout"} <= marks
    expect(page.locator("#semantic")).to_have_text("Meaning: off, this node has no embedder")
    expect(page.locator("#fresh")).to_contain_text("41 documents, version 1")
    assert page.url.endswith("#q=gateway+timeout")
    assert tab.complaints == []
    assert tab.refusals == []


def test_text_of_documents_is_never_markup(tab: Any, service: Service) -> None:
    page = enter(tab, service)
    ask(page, "quokka")
    assert titles(page) == ["<img src=x onerror=alert(1)> quokka"]
    expect(page.locator(".snippet")).to_contain_text("<script>alert(2)</script>")
    assert page.locator(".snippet mark").all_inner_texts() == ["quokka"]
    page.keyboard.press("Enter")
    expect(page.locator("#paper .text")).to_contain_text("<b>bold</b>")
    assert tab.complaints == []


def test_an_older_question_never_overwrites_a_newer_one(page: Page) -> None:
    held: list[Route] = []

    def hold_first(route: Route) -> None:
        if json.loads(route.request.post_data or "{}")["q"] == "invoice":
            held.append(route)
        else:
            route.continue_()

    page.route("**/v1/search", hold_first)
    page.locator("#q").fill("invoice")
    wait_for(lambda: page.evaluate("1") and held, what="the first question")
    ask(page, "depot")
    held[0].continue_()
    page.evaluate("new Promise((done) => setTimeout(done, 100))")
    answered(page, "depot")
    assert all(title.startswith("Depot") for title in titles(page)[:8])


def test_kinds_and_times_narrow_the_results(page: Page) -> None:
    ask(page, "gateway")
    everything = page.locator(".hit").count()
    page.locator("#kinds").get_by_role("button", name=re.compile("^note")).click()
    expect(page.locator(".hit .kind").first).to_have_text("note")
    wait_for(lambda: set(page.locator(".hit .kind").all_inner_texts()) == {"note"})
    assert 0 < page.locator(".hit").count() < everything
    page.locator("#kinds").get_by_role("button", name=re.compile("^note")).click()
    page.get_by_label("Changed").select_option("Past week")
    wait_for(lambda: page.locator(".hit").count() == 2)
    assert sorted(titles(page)) == ["Gateway timeout 00", "Gateway timeout 05"]
    page.get_by_label("Changed").select_option("From … to …")
    page.get_by_label("from").fill("1999-01-01")
    page.get_by_label("to", exact=True).fill("1999-12-31")
    expect(page.locator("#empty")).to_contain_text("Nothing found")
    page.get_by_role("button", name="Search without filters").click()
    expect(page.locator(".hit")).to_have_count(everything)


def test_the_address_brings_all_of_it_back(page: Page, browser: Open, service: Service) -> None:
    ask(page, "rate limit")
    page.locator("#kinds").get_by_role("button", name=re.compile("^task")).click()
    page.locator(".hit h2 a").first.click()
    expect(page.locator("#paper")).to_be_visible()
    title = page.locator("#paper-title").inner_text()
    page.reload()
    expect(page.locator("#paper-title")).to_have_text(title)
    expect(page.locator("#q")).to_have_value("rate limit")
    expect(page.locator(".chip[aria-pressed=true]")).to_contain_text("task")
    page.go_back()
    expect(page.locator("#paper")).to_be_hidden()
    expect(page.locator("#q")).to_have_value("rate limit")


def test_hands_stay_on_the_keyboard(page: Page) -> None:
    ask(page, "key rotation")
    page.keyboard.press("ArrowDown")
    links = page.locator(".hit h2 a")
    expect(links.nth(0)).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("w")
    bars = page.locator(".hit").nth(1).locator(".bars")
    expect(bars).to_contain_text("score")
    page.keyboard.press("Enter")
    expect(page.locator("#paper-title")).to_have_text(links.nth(1).inner_text())
    page.keyboard.press("Escape")
    expect(page.locator("#paper")).to_be_hidden()
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("/")
    expect(page.locator("#q")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#q")).to_have_value("")
    expect(page.locator("#empty")).to_contain_text("Ask in any words")


def test_why_shows_what_a_score_is_made_of(page: Page, service: Service) -> None:
    ask(page, "depot window")
    hit = service.ask("depot window", limit=20).json()["hits"][0]
    first = page.locator(".hit").first
    first.locator(".why").click()
    names = first.locator(".bars dt").all_inner_texts()
    numbers = map(float, first.locator(".bars .number").all_inner_texts())
    shown = dict(zip(names, numbers, strict=True))
    assert shown.pop("score") == pytest.approx(hit["score"], abs=0.02)
    assert shown.keys() == hit["components"].keys()
    assert shown == pytest.approx(hit["components"], abs=0.02)
    first.locator(".why").click()
    expect(first.locator(".bars")).to_have_count(0)


def test_while_keys_come_nothing_waits_for_meaning_and_then_it_is_asked_for(page: Page) -> None:
    """As on a node with an embedder: the first answer comes without, the settled one with."""
    asked: list[tuple[str, bool]] = []

    def with_embedder(route: Route) -> None:
        body = json.loads(route.request.post_data or "{}")
        quick = body.get("semantic") == {"deadline_ms": 0}
        asked.append((body["q"], quick))
        answer = route.fetch()
        reason, coverage = ("requested", None) if quick else (None, 0.75)
        state = "skipped" if quick else "ok"
        semantic = {"state": state, "reason": reason, "model": "m", "coverage": coverage}
        route.fulfill(response=answer, json=answer.json() | {"semantic": semantic})

    ask(page, "depot")  # this node has none, and the page remembers that
    page.route("**/v1/search", with_embedder)
    ask(page, "depot w")
    expect(page.locator("#semantic")).to_have_text("Meaning: on, 75% of candidates")
    asked.clear()
    page.locator("#q").press("i")
    expect(page.locator("#semantic")).to_have_text("Meaning: skipped, waits until you stop typing")
    expect(page.locator("#semantic")).to_have_text("Meaning: on, 75% of candidates")
    assert asked == [("depot wi", True), ("depot wi", False)]


def test_a_document_opens_whole_beside_its_timeline(page: Page) -> None:
    ask(page, "HBL-1012")
    page.locator(".hit h2 a").first.click()
    paper = page.locator("#paper")
    expect(paper.locator("#paper-title")).to_have_text("Key rotation 12")
    expect(paper).to_contain_text("Second line, plain text.")
    expect(paper).to_contain_text("HBL-1012")
    moments = paper.locator(".moment")
    found = page.evaluate("[...CSS.highlights.get('found')].map(String)")
    assert found == ["HBL-1012"]
    # Number 12 is a task, and so is every third document; a higher number is an earlier day.
    shown = [text.split()[-1] for text in moments.all_inner_texts()]
    assert shown == ["00", "03", "06", "09", "12", "15", "18", "21", "24", "27"]
    paper.get_by_role("button", name="All kinds").click()
    expect(paper.get_by_role("button", name="All kinds", pressed=True)).to_be_visible()
    shown = [text.split()[-1] for text in moments.all_inner_texts()]
    assert shown == [f"{number:02}" for number in range(7, 18)]
    moments.filter(has_text="Invoice export 14").get_by_role("link").click()
    expect(paper.locator("#paper-title")).to_have_text("Invoice export 14")


def test_more_results_are_fetched_on_demand(page: Page) -> None:
    ask(page, "acmeeventoperator")
    expect(page.locator(".hit")).to_have_count(20)
    page.get_by_role("button", name="More results").click()
    expect(page.locator(".hit")).to_have_count(40)
    assert len(set(titles(page))) == 40


def test_a_server_that_goes_is_waited_for(tab: Any, service: Service) -> None:
    page = enter(tab, service)
    ask(page, "invoice")
    before = titles(page)
    service.stop()
    try:
        page.locator("#q").fill("depot")
        expect(page.locator("#trouble")).to_contain_text("The server cannot be reached")
        assert titles(page) == before
        tab.screenshot("server-gone")
        assert tab.axe() == []
    finally:
        service.start()
    answered(page, "depot")  # by itself
    expect(page.locator("#trouble")).to_be_hidden()
    assert tab.complaints == []


def test_a_server_that_hangs_is_waited_for(page: Page, service: Service) -> None:
    """A stopped process takes connections and says nothing: no error comes, only time passes."""
    workers = service.children("MEMLANE_SERVE", '"reader"') or service.children("MEMLANE_SERVE")
    page.clock.install()
    for pid in workers:
        os.kill(pid, signal.SIGSTOP)
    try:
        page.locator("#q").fill("depot")
        page.clock.run_for(100)
        page.clock.run_for(16_000)
        expect(page.locator("#trouble")).to_contain_text("cannot be reached")
    finally:
        for pid in workers:
            os.kill(pid, signal.SIGCONT)
    page.clock.run_for(2_000)
    page.clock.resume()
    answered(page, "depot")


def test_a_rate_limit_is_kept(tab: Any, service: Service) -> None:
    page = enter(tab, service)
    refused: list[float] = []

    def limit(route: Route) -> None:
        if refused:
            route.continue_()
            return
        refused.append(1)
        route.fulfill(
            status=429,
            headers={"retry-after": "1", "content-type": "application/problem+json"},
            body=json.dumps({"title": "Too many requests", "status": 429, "detail": "slow down"}),
        )

    page.route("**/v1/search", limit)
    page.locator("#q").fill("gateway")
    expect(page.locator("#trouble")).to_contain_text("Too many requests for now")
    answered(page, "gateway")
    expect(page.locator("#trouble")).to_be_hidden()
    assert tab.complaints == []


def test_nobody_has_to_sit_out_the_wait(page: Page) -> None:
    page.route(
        "**/v1/search", lambda route: route.fulfill(status=503, headers={"retry-after": "60"})
    )
    page.locator("#q").fill("gateway")
    expect(page.locator("#trouble")).to_contain_text("The server is busy")
    page.unroute("**/v1/search")
    page.get_by_role("button", name="Try now").click()
    answered(page, "gateway")
    expect(page.locator("#trouble")).to_be_hidden()


def test_a_refused_search_says_why(page: Page) -> None:
    page.locator("#q").evaluate("(box) => box.removeAttribute('maxlength')")
    page.locator("#q").fill("x" * 5_000)
    expect(page.locator("#empty")).to_contain_text("This search was refused")
    ask(page, "gateway")
    expect(page.locator("#empty")).to_be_empty()


def test_a_key_that_ends_ends_the_session(
    browser: Open, service: Service, tmp_path_factory: pytest.TempPathFactory
) -> None:
    tab = browser(service.reader)
    page: Page = tab.page
    client = service.tenant("passing")
    page.get_by_label("Key").fill(client.headers["authorization"].split()[1])
    page.get_by_role("button", name="Open my memory").click()
    expect(page.locator("#tenant")).to_have_text("passing")
    operator = {"authorization": f"Bearer {(service.data / 'operator.key').read_text().strip()}"}
    httpx.post(
        f"{service.writer}/v1/admin/tenants/passing:suspend", headers=operator
    ).raise_for_status()
    wait_for(lambda: client.get(f"{service.reader}/v1/index").status_code == 403)
    page.locator("#q").fill("anything")
    expect(page.locator("#gate-error")).to_contain_text("suspended")
    expect(page.locator("#q")).to_be_hidden()
    enter(tab, service)
    answered(page, "anything")
    expect(page.locator("#tenant")).to_have_text(service.told["tenant"])
    assert tab.complaints == []


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("desktop-light", {}),
        ("desktop-dark", {"scheme": "dark"}),
        ("phone-light", {"phone": True}),
        ("phone-dark", {"phone": True, "scheme": "dark"}),
    ],
)
def test_every_view_is_accessible_and_fits(
    browser: Open, service: Service, name: str, look: dict[str, Any]
) -> None:
    tab = browser(service.reader, **look)
    expect(tab.page.get_by_label("Key")).to_be_focused()
    tab.screenshot(f"{name}-gate")
    assert tab.axe() == []
    page = enter(tab, service)
    tab.screenshot(f"{name}-welcome")
    assert tab.axe() == []
    ask(page, "gateway timeout")
    page.locator(".why").nth(1).click()
    tab.screenshot(f"{name}-results")
    assert tab.axe() == []
    page.locator(".hit h2 a").first.click()
    expect(page.locator("#paper-title")).to_be_visible()
    tab.screenshot(f"{name}-document")
    assert tab.axe() == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("Escape")
    ask(page, "zzzz nothing like this")
    tab.screenshot(f"{name}-nothing")
    assert tab.axe() == []
    assert tab.complaints == []
