"""The start page: runs that need attention, filters in the URL, attempts, sparklines, refresh, keys, and what it loads of 10,000 runs."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, Request, expect

from tests.browser.fake import FakeRun, FakeServer
from tests.browser.test_viewer_for_everybody import violations

Serve = Callable[..., FakeServer]
HOUR_S = 3600
HOSTILE = "<img src=x onerror=alert(1)>\u202e"
LARGEST_PAINT = """() => new Promise(done => new PerformanceObserver(list => done(Math.max(...list.getEntries().map(each => each.startTime))))
    .observe({type: "largest-contentful-paint", buffered: true}))"""
EXPLAINED = {"line": 41, "text": f"ERROR no such table: orders {HOSTILE}", "rule": "last-error", "score": 0.3}


def run(run_id: str, outcome: str, ago_s: float = 60, took_s: float = 30, **known: Any) -> FakeRun:
    """A run that was active last ``ago_s`` before now."""
    last_ms = int((time.time() - ago_s) * 1000)
    is_open = outcome in ("running", "silent")
    times = {"startedMs": last_ms - int(took_s * 1000), "lastAppendMs": last_ms, "durationMs": int(took_s * 1000)}
    silent = {"silentSinceMs": last_ms} if outcome == "silent" else {}
    lines = [f"line {number}" if number != EXPLAINED["line"] else "ERROR no such table" for number in range(100)]
    return FakeRun(run_id, lines, status="open" if is_open else "finalized", known={"outcome": outcome, **times, **silent, **known})


def attempts(run_id: str, *outcomes: str) -> list[FakeRun]:
    """Attempts of a run, newest first."""
    ids = [run_id, *(f"{run_id}~{number}" for number in range(2, len(outcomes) + 1))]
    return [
        run(ids[at], outcome, ago_s=300 - at, attempt=at + 1, firstRunId=run_id)
        for at, outcome in reversed(list(enumerate(outcomes)))
    ]


def night() -> dict[str, list[FakeRun]]:
    """Runs of several pipelines."""
    return {
        "shop.orders": [
            run("o-3", "failed", 30, 240, explanation=EXPLAINED, exitCode=3),
            run("o-2", "succeeded", 5000),
            run("o-1", "lost", 9000),
        ],
        "shop.stock": [run("s-1", "running", 5, 100)],
        "hr.payroll": attempts("p-1", "failed", "failed", "failed"),
        "hr.quiet": [run("q-1", "silent", 2 * HOUR_S), run("q-0", "failed", 30 * HOUR_S)],
        "web.crawl": [run("c-1", "succeeded", 100)],
    }


def rows(page: Page) -> Locator:
    return page.locator(".start .run-row:visible")


def shown(page: Page) -> list[str]:
    """Run ids in order."""
    return page.locator(".start a.open:visible").all_inner_texts()


def test_runs_that_need_attention_are_listed_grouped_and_lead_to_their_lines(page: Page, serve: Serve) -> None:
    server = serve(night())
    page.goto(server.url)
    expect(rows(page)).to_have_count(4)
    assert shown(page) == ["o-3", "p-1~3", "q-1", "o-1"]
    assert [each.split()[0] for each in page.locator(".start .badge:visible").all_inner_texts()] == [
        "Failed",
        "Failed",
        "Silent",
        "Lost",
    ]
    failed = page.locator("tbody", has_text="o-3")
    expect(failed.locator(".why")).to_have_text("ERROR no such table: orders <img src=x onerror=alert(1)>\u202e")
    expect(failed.get_by_role("img")).to_have_attribute(
        "aria-label", "Last 3 runs: 1 failed, 1 lost, 1 succeeded, 30 s to 4 min 0 s"
    )
    assert failed.locator(".sparkline .failed").count() == 1
    expect(failed.locator("td").nth(5)).to_have_text("1")
    page.get_by_role("button", name="2 earlier attempts").click()
    assert shown(page)[1:4] == ["p-1~3", "p-1~2", "p-1"]
    page.get_by_role("button", name="2 earlier attempts").click()
    expect(rows(page)).to_have_count(4)
    failed.locator("td").nth(4).click()
    expect(page).to_have_url(re.compile(r"\?p=shop.orders&r=o-3#L42$"))
    expect(page.locator('[data-line="41"]')).to_have_class(re.compile("selected"))
    page.get_by_role("link", name="shop.orders").click()
    expect(page.get_by_role("table", name="Runs").locator("tr:not(.why) + .why")).to_have_count(1)
    page.get_by_role("link", name="ERROR no such table").click()
    expect(page).to_have_url(re.compile(r"\?p=shop.orders&r=o-3#L42$"))


def test_filters_and_order_are_in_the_url(page: Page, serve: Serve) -> None:
    server = serve(night())
    page.goto(server.url)
    expect(rows(page)).to_have_count(4)
    page.get_by_role("button", name="Failed", exact=True).click()
    expect(rows(page)).to_have_count(2)
    page.get_by_role("button", name="Succeeded", exact=True).click()
    page.get_by_label("Active in the last").select_option("7 days")
    expect(rows(page)).to_have_count(5)
    page.get_by_role("columnheader", name="Duration").get_by_role("button").click()
    assert shown(page)[0] == "o-3"
    page.get_by_label("Name contains").fill("ORDERS")
    expect(rows(page)).to_have_count(2)
    expect(page).to_have_url(re.compile(r"\?outcome=failed,succeeded&within=7d&find=ORDERS&sort=-duration$"))
    page.reload()
    expect(rows(page)).to_have_count(2)
    expect(page.get_by_role("columnheader", name="Duration")).to_have_attribute("aria-sort", "descending")
    page.get_by_label("Name contains").fill("o-2")
    expect(rows(page)).to_have_count(1)
    page.get_by_label("Name contains").fill("nobody")
    expect(page.locator("main")).to_contain_text(
        "No failed or succeeded runs in the last 7 days whose pipeline or run id contains “nobody”."
    )
    page.get_by_role("link", name="Pipelines").click()
    expect(page).to_have_url(re.compile(r"\?list$"))
    page.goto(f"{server.url}?q=orders")
    expect(page.get_by_role("table", name="Pipelines").locator("tbody tr")).to_have_count(1)


@pytest.mark.parametrize(
    ("runs", "text"),
    [
        ({}, "runlake exec my.pipeline"),
        ({"a.b": [run("r", "succeeded")]}, "No failed, lost or silent runs in the last 24 hours."),
    ],
)
def test_an_empty_list_says_why(page: Page, serve: Serve, runs: dict[str, list[FakeRun]], text: str) -> None:
    page.goto(serve(runs).url)
    expect(page.locator("main")).to_contain_text(text)


@pytest.mark.behavior("The start page refreshes without moving what is read.")
def test_a_refresh_moves_nothing_and_an_unavailable_server_keeps_the_list(page: Page, serve: Serve) -> None:
    page.clock.install()
    server = serve({f"svc.p{number:02d}": [run(f"r{number:02d}", "failed", 60 + number)] for number in range(60)})
    page.goto(server.url)
    expect(rows(page)).to_have_count(50)
    link = page.get_by_role("link", name="r30")
    link.focus()
    link.scroll_into_view_if_needed()
    before = link.bounding_box()
    server.runs["svc.new"] = [run("new", "failed", 1)]
    server.runs["svc.p10"][0].known["outcome"] = "succeeded"
    page.clock.run_for(9_000)
    expect(page.get_by_role("link", name="new", exact=True)).to_have_count(1)
    expect(page.get_by_role("link", name="r10")).to_have_count(0)
    after = link.bounding_box()
    assert before and after and abs(before["y"] - after["y"]) < 1
    expect(link).to_be_focused()
    asked = len(server.asked)
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true}); document.dispatchEvent(new Event('visibilitychange'))"
    )
    page.clock.run_for(600_000)
    asked_of_lists = [path for path, _ in server.asked[asked:] if path.startswith("/api/v1/catalog?")]
    assert asked_of_lists == [], "a hidden page refreshes nothing"
    server.stop()
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: false}); document.dispatchEvent(new Event('visibilitychange'))"
    )
    expect(page.locator(".status")).to_contain_text(re.compile(r"The server does not respond. Runs as of \d\d:\d\d:\d\d"))
    expect(rows(page)).to_have_count(50)
    server.start()
    page.clock.run_for(130_000)
    expect(page.locator(".status")).to_contain_text("50 runs, and more")


def test_the_keyboard_moves_and_opens(page: Page, serve: Serve) -> None:
    page.goto(serve(night()).url)
    expect(rows(page)).to_have_count(4)
    page.keyboard.press("/")
    expect(page.get_by_label("Name contains")).to_be_focused()
    page.keyboard.type("shop")
    expect(rows(page)).to_have_count(2)
    page.get_by_label("Name contains").blur()
    for key, run_id in (("j", "o-3"), ("ArrowDown", "o-1"), ("j", "o-1"), ("k", "o-3")):
        page.keyboard.press(key)
        expect(page.get_by_role("link", name=run_id, exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"r=o-3#L42$"))


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_the_list_is_accessible_and_fits(page: Page, serve: Serve, theme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(serve({**night(), f"a.very.long.name_{'of_a_pipeline_' * 8}": [run("x" * 200, "failed")]}).url)
    expect(rows(page)).to_have_count(5)
    page.get_by_role("button", name="2 earlier attempts").click()
    expect(page.locator(".sparkline").first).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.behavior("The start page loads little of an archive with many runs.")
def test_ten_thousand_runs_load_little(page: Page, serve: Serve) -> None:
    server = serve(
        {
            f"svc.pipeline_{number:03d}": [
                run(f"2026-11-26T{at:02d}-00-00-nightly", "failed", at * 60 + number, 40 + at) for at in range(100)
            ]
            for number in range(100)
        }
    )
    requests: list[Request] = []
    page.on("requestfinished", lambda request: requests.append(request))
    page.goto(server.url)
    expect(page.locator(".sparkline")).not_to_have_count(0)
    page.wait_for_load_state("networkidle")
    expect(rows(page)).to_have_count(50)
    sizes = [each.sizes()["responseBodySize"] for each in requests]
    counts = Counter(re.sub(r"^.*/v1/(ui|catalog)(/history)?.*?(/histogram)?(\?.*)?$", r"\1\2\3", each.url) for each in requests)
    painted_ms = page.evaluate(LARGEST_PAINT)
    print(f"list painted after {painted_ms:.0f} ms, {sum(sizes) // 1000} kB, {len(requests)} requests: {dict(counts)}")
    assert sum(sizes) < 300_000
    assert sum(path.startswith("/api/v1/catalog?") for path, _ in server.asked) == 2, "those that have ended, then all"
    assert sum(path.startswith("/api/v1/catalog/history") for path, _ in server.asked) <= 2
    assert len(requests) <= 30
    page.get_by_role("button", name="Show more").click()
    expect(rows(page)).to_have_count(100)
