"""The viewer in use: find, open, follow to the end, search, permalinks, keys, tokens, and an unavailable server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from contextlib import suppress

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.fake import START_MS, STORED, FakeRun, FakeServer, numbered
from tests.browser.test_viewer_for_everybody import violations

Serve = Callable[..., FakeServer]
FQN, RUN = "mysql_prod.ingest", "run-17"


def requests_in_ten_minutes(page: Page, server: FakeServer) -> int:
    """Number of requests while the page's timers run for ten minutes of its installed clock."""
    before = len(server.asked)
    page.clock.run_for(600_000)
    page.wait_for_load_state("networkidle")
    return len(server.asked) - before


def address(server: FakeServer, run_id: str = RUN, fqn: str = FQN) -> str:
    return f"{server.url}?p={fqn}&r={run_id}"


def row(page: Page, number: int) -> str:
    """A line's text, numbered from 1."""
    return page.locator(f'[data-line="{number - 1}"] .text').inner_text()


def settled(page: Page) -> list[int]:
    """Numbers of displayed lines, once the page is idle after scrolling."""
    before, now = [-1], shown(page)
    while now != before:
        page.wait_for_timeout(200)
        before, now = now, shown(page)
    return now


def repeat_until(act: Callable[[], None], check: Callable[[float], None]) -> None:
    """Repeat an action until a check with a timeout passes: a click is lost if its row is redrawn while lines arrive."""
    for _ in range(20):
        act()
        with suppress(AssertionError):
            return check(3000)
    check(3000)


def leads_to(page: Page, fragment: str, act: Callable[[], None]) -> None:
    """Repeat the action until the address ends with the fragment."""
    repeat_until(act, lambda timeout_ms: expect(page).to_have_url(re.compile(f"{fragment}$"), timeout=timeout_ms))


def shown(page: Page) -> list[int]:
    """Numbers of displayed lines, in order."""
    return [int(text) for text in page.locator(".row .number").all_inner_texts()]


def large(count: int = 5_000_000) -> FakeRun:
    return FakeRun(RUN, count=count, text=numbered(count), line_ms=1)


def test_one_finds_a_pipeline_and_opens_a_run(page: Page, serve: Serve) -> None:
    others = {f"kafka.topic_{number:03d}": [FakeRun("r", ["x"])] for number in range(120)}
    server = serve({FQN: [FakeRun(RUN, ["hello", "world"]), FakeRun("run-16", ["a"], end="abandoned")], **others})
    page.goto(f"{server.url}?list")
    expect(page.locator("tbody tr")).to_have_count(50)
    page.get_by_role("button", name="Show more").click()
    expect(page.locator("tbody tr")).to_have_count(100)
    page.get_by_label("Name contains").fill("SQL")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.get_by_role("link", name=FQN).click()
    expect(page.locator("tbody tr")).to_have_count(2)
    expect(page.locator("tbody")).to_contain_text("Lost")
    page.get_by_role("link", name=RUN, exact=True).click()
    expect(page.locator(".row")).to_have_count(2)
    assert [row(page, 1), row(page, 2)] == ["hello", "world"]
    page.go_back()
    expect(page.get_by_role("link", name="run-16")).to_be_visible()
    page.go_back()
    expect(page.get_by_label("Name contains")).to_have_value("SQL")


def test_a_name_far_behind_is_found_by_searching_further(page: Page, serve: Serve) -> None:
    """Five requests of ten names each, then on demand."""
    server = serve({f"kafka.topic_{number:03d}": [FakeRun("r", ["x"])] for number in range(58)} | {"zoo": [FakeRun("r", ["x"])]})
    server.examined_names = 10
    page.goto(f"{server.url}?q=zoo")
    expect(page.get_by_text("Nothing found so far.")).to_be_visible()
    assert sum("/catalog/pipelines" in path for path, _ in server.asked) == 5
    page.get_by_role("button", name="Search further").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page.get_by_role("button", name="Search further")).to_be_hidden()


def test_names_with_slashes_and_other_letters(page: Page, serve: Serve) -> None:
    server = serve({"svc/a b.שירות": [FakeRun("run/1 ü?#", ["found"])]})
    page.goto(f"{server.url}?list")
    page.get_by_role("link", name="svc/a b.שירות").click()
    page.get_by_role("link", name="run/1 ü?#").click()
    expect(page.locator(".row")).to_have_count(1)
    page.reload()
    expect(page.locator(".text")).to_have_text("found")


@pytest.mark.behavior("The viewer follows a live run to its end.")
def test_a_live_run_is_followed_to_its_end(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN, [f"line {number}" for number in range(1, 501)], status="open")
    server = serve({FQN: [run]})
    page.clock.install()
    page.goto(address(server))
    expect(page.locator(".row").last).to_contain_text("line 500")
    expect(page.get_by_role("button", name="Following")).to_have_attribute("aria-pressed", "true")
    for number in range(501, 701):
        run.append(f"line {number}")
    expect(page.locator(".row").last).to_contain_text("line 700")
    assert shown(page)[-1] == 700
    page.mouse.move(600, 500)
    page.mouse.wheel(0, -600)
    expect(page.get_by_role("button", name="Follow", exact=True)).to_be_visible()
    seen = settled(page)
    run.append("line 701")
    expect(page.locator(".range")).to_contain_text("of 701")
    assert shown(page)[0] == seen[0], "whoever reads is left where they are"
    page.keyboard.press("f")
    run.append("the last line")
    run.close()
    expect(page.locator(".row").last).to_contain_text("the last line")
    expect(page.locator(".badge")).to_have_text("Finalized")
    requests_in_ten_minutes(page, server)  # for levels of the last lines
    assert requests_in_ten_minutes(page, server) == 0, "a finalized run is not polled"


def test_live_run_is_polled(page: Page, serve: Serve) -> None:
    server = serve({FQN: [FakeRun(RUN, ["one"], status="open")]})
    page.clock.install()
    page.goto(address(server))
    expect(page.locator(".badge")).to_have_text("Running")
    with page.expect_request(re.compile("/stream/")):
        page.clock.run_for(600_000)


def test_an_end_that_the_catalog_does_not_know_yet_is_asked_for_again(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN, ["one"], status="open", lag=2)
    page.goto(address(serve({FQN: [run]})))
    expect(page.locator(".badge")).to_have_text("Running")
    run.close()
    expect(page.locator(".badge")).to_have_text("Finalized")


def test_a_run_that_has_ended_is_not_followed(page: Page, serve: Serve) -> None:
    server = serve({FQN: [large()]})
    page.goto(address(server))
    expect(page.locator(".range")).to_have_text(re.compile("^Lines 1 to"))
    assert not [path for path, _ in server.asked if "/stream/" in path]


@pytest.mark.behavior("The viewer opens a log of millions of lines at once.")
def test_five_million_lines_open_at_once_and_every_place_is_in_reach(page: Page, serve: Serve) -> None:
    server = serve({FQN: [large()]})
    page.goto(address(server))
    expect(page.locator('[data-line="0"] .text')).to_contain_text("batch 0 of")
    loaded = [(path, size) for path, size in server.asked if "/logs/" in path]
    assert len(loaded) <= 5 and sum(size for _, size in loaded) < 1_000_000, loaded
    page.keyboard.press("End")
    expect(page.locator('[data-line="4999999"] .text')).to_contain_text("batch 4999999")
    page.keyboard.press("g")
    page.keyboard.type("2,500,000")
    page.keyboard.press("Enter")
    expect(page.locator('[data-line="2499999"] .text')).to_contain_text("batch 2499999")
    page.keyboard.press("Home")
    expect(page.locator('[data-line="0"] .text')).to_contain_text("batch 0 of")
    page.locator(".log").evaluate("log => log.scrollTop = log.scrollHeight / 2")
    expect(page.locator(".range")).to_have_text(re.compile("^Lines 2,(49|50)"))
    expect(page.locator(".absent")).to_have_count(0)
    assert sum(size for path, size in server.asked if "/logs/" in path) < 1_000_000


def test_a_time_is_jumped_to(page: Page, serve: Serve) -> None:
    server = serve({FQN: [large()]})
    opening: list[Route] = []
    page.route(re.compile(r"/logs/.*after=0"), lambda route: opening.append(route), times=1)
    page.goto(address(server))
    page.get_by_label("Go to a line or a time").fill(time.strftime("%Y-%m-%d %H:%M", time.gmtime(START_MS // 1000 + 1600)))
    page.keyboard.press("Enter")
    opening[0].continue_()  # until now the page does not know how long the log is
    at = START_MS // 1000 + 1600
    line = (at - at % 60) * 1000 - START_MS
    expect(page.locator(f'[data-line="{line}"]')).to_have_class(re.compile("selected"))
    expect(page.locator(".message")).to_have_text("Found by timestamps in the lines, UTC.")


def test_matches_are_counted_marked_and_walked(page: Page, serve: Serve) -> None:
    lines = [f"line {number}" + (" needle (needle)" if number % 100 == 50 else "") for number in range(1000)]
    server = serve({FQN: [FakeRun(RUN, lines)]})
    page.goto(address(server))
    page.keyboard.press("/")
    page.keyboard.type("NEEDLE")
    expect(page.locator(".matches")).to_have_text("1 of 10 lines (20 matches)")
    expect(page.locator('[data-line="50"] mark')).to_have_text(["needle", "needle"])
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("needle")
    expect(page.locator(".matches")).to_contain_text("1 of 10")
    page.keyboard.press("Enter")
    expect(page.locator('[data-line="150"]')).to_have_class(re.compile("current"))
    page.locator(".log").focus()
    page.keyboard.press("N")
    page.keyboard.press("N")
    expect(page.locator('[data-line="950"]')).to_have_class(re.compile("current"))
    page.get_by_role("button", name="Case-sensitive").click()
    page.get_by_label("Search in this run").fill("NEEDLE")
    expect(page.locator(".matches")).to_have_text("No match")
    page.get_by_role("button", name="Regular expression").click()
    page.get_by_label("Search in this run").fill(r"needle \(n\w+\)$")
    expect(page.locator(".matches")).to_have_text(re.compile("of 10 lines$"))


def test_only_matches_are_shown_with_lines_around_and_the_address_keeps_them(page: Page, serve: Serve) -> None:
    lines = [f"line {number}" + (" needle" if number % 100 == 50 else "") for number in range(1000)]
    server = serve({FQN: [FakeRun(RUN, lines)]})
    page.goto(address(server))
    page.get_by_label("Search in this run").fill("needle")
    expect(page.locator(".matches")).to_have_text("1 of 10 lines")
    page.locator(".log").focus()
    page.keyboard.press("m")
    expect(page.locator(".row")).to_have_count(10)
    assert shown(page) == [number + 1 for number in range(50, 1000, 100)]
    page.get_by_label("Lines of context").select_option("1")
    expect(page.locator('[data-line="49"]')).to_be_attached()
    expect(page.locator(".row.after-gap")).to_have_count(9)
    assert shown(page)[:4] == [50, 51, 52, 150]
    expect(page.locator('[data-line="51"] .text')).to_have_text("line 51")
    page.get_by_role("button", name="Case-sensitive").click()
    expect(page.locator(".matches")).to_have_text("1 of 10 lines")
    page.locator('[data-line="550"] .number').click()
    expect(page).to_have_url(re.compile(r"&q=needle&case=1&only=1#L551$"))
    page.reload()
    expect(page.locator('[data-line="550"]')).to_have_class(re.compile("selected"))
    expect(page.locator(".matches")).to_have_text("10 lines")
    expect(page.locator(".row.after-gap").first).to_be_visible()
    assert violations(page) == []
    page.locator(".log").focus()
    page.keyboard.press("Escape")
    expect(page.locator('[data-line="553"]')).to_be_attached()
    expect(page).to_have_url(re.compile(r"&q=needle&case=1#L551$"))
    page.keyboard.press("Escape")
    expect(page.locator(".match")).to_have_count(0)
    expect(page).to_have_url(re.compile(r"r=run-17#L551$"))


def test_groups_of_lines_fold(page: Page, serve: Serve) -> None:
    lines = ["::group::<b>Install</b>", *(f"line {number}" for number in range(1, 300)), "::endgroup::"]
    lines += ["section_start:1560896352:build\r\x1b[0KBuild", "compiled", "section_end:1560896353:build\r\x1b[0K", "the end"]
    page.goto(address(serve({FQN: [FakeRun(RUN, lines)]})))
    page.get_by_role("button", name="Fold these lines").click()
    expect(page.locator(".row")).to_have_count(5)
    assert shown(page) == [1, 302, 303, 304, 305]
    expect(page.get_by_role("button", name="Show 300 lines")).to_be_focused()
    expect(page.locator('[data-line="301"] .text')).to_have_text(re.compile("Build$"))
    page.get_by_role("button", name="Fold these lines").click()
    expect(page.locator(".row")).to_have_count(3)
    assert violations(page) == []
    page.get_by_label("Go to a line or a time").fill("150")
    page.keyboard.press("Enter")
    expect(page.locator('[data-line="149"]')).to_have_class(re.compile("selected"))


def test_a_search_of_many_pages_stops_and_goes_on(page: Page, serve: Serve) -> None:
    server = serve({FQN: [large(40_000)]})
    page.goto(address(server))
    page.get_by_label("Search in this run").fill("batch")
    expect(page.locator(".matches")).to_have_text("1 of 10,000 lines, and more")
    page.get_by_role("button", name="Continue searching").click()
    expect(page.locator(".matches")).to_have_text("1 of 20,000 lines, and more")


def test_a_permalink_leads_to_its_lines(page: Page, serve: Serve) -> None:
    server = serve({FQN: [large()]})
    page.goto(address(server) + "#L3000010-L3000012")
    expect(page.locator(".row.selected")).to_have_count(3)
    expect(page.locator('[data-line="3000009"] .text')).to_contain_text("batch 3000009 ")
    leads_to(page, "#L3000013", lambda: page.locator('[data-line="3000012"] .number').click())
    # A click that Playwright repeats, because its row was redrawn, first scrolls the row to the lower edge: load the rows after it again.
    page.reload()
    expect(page.locator(".row.selected")).to_have_count(1)
    leads_to(page, "#L3000013-L3000017", lambda: page.locator('[data-line="3000016"] .number').click(modifiers=["Shift"]))
    expect(page.locator(".row.selected")).to_have_count(5)
    page.reload()
    expect(page.locator(".row.selected")).to_have_count(5)
    page.evaluate("location.hash = '#L17'")
    expect(page.locator('[data-line="16"]')).to_have_class(re.compile("selected"))
    repeat_until(
        lambda: page.locator('[data-line="16"] .number').click(),
        lambda timeout_ms: expect(page.locator(".row.selected")).to_have_count(0, timeout=timeout_ms),
    )


def test_lines_are_copied_without_escape_sequences(page: Page, serve: Serve) -> None:
    server = serve({FQN: [FakeRun(RUN, ["\x1b[31mred\x1b[0m", "two\0", "three"])]})
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(address(server) + "#L1-L2")
    expect(page.locator(".row.selected")).to_have_count(2)
    page.keyboard.press("c")
    expect(page.locator(".message")).to_contain_text("Copied 2 lines")
    assert page.evaluate("navigator.clipboard.readText()") == "red\ntwo\0\n"


@pytest.mark.parametrize("token", ["", "secret"])
def test_the_log_is_downloaded(page: Page, serve: Serve, token: str) -> None:
    server = serve({FQN: [FakeRun(RUN, ["one", "two"])]}, token, "jwt" if token else "none")
    page.goto(address(server))
    if token:
        page.get_by_label("Token").fill(token)
        page.keyboard.press("Enter")
    expect(page.locator(".row")).to_have_count(2)
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    assert started.value.path().read_text() == "one\ntwo"


def test_a_large_log_is_downloaded_with_a_token_from_a_store_that_knows_no_pages(page: Page, serve: Serve) -> None:
    server = serve({FQN: [FakeRun(RUN, ["one", "two"])]}, "secret", "jwt")
    server.link = f"http://localhost:{server.port}{STORED}"  # another origin than 127.0.0.1
    page.goto(address(server))
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    expect(page.locator(".row")).to_have_count(2)
    with page.expect_download() as started:
        page.get_by_role("button", name="Download").click()
    assert started.value.path().read_text() == "of the store\n"


def test_a_token_is_asked_for_kept_in_the_tab_and_forgotten(page: Page, serve: Serve) -> None:
    server = serve({FQN: [FakeRun(RUN, ["one"])]}, "secret", "jwt")
    page.goto(f"{server.url}?list")
    expect(page.get_by_role("dialog")).to_contain_text("scope logs:read")
    page.get_by_label("Token").fill("wrong")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_contain_text("expired")
    page.get_by_label("Token").fill("Bearer secret")
    page.keyboard.press("Enter")
    page.get_by_role("link", name=FQN).click()
    page.reload()
    expect(page.get_by_role("link", name=RUN)).to_be_visible()
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("alert")).to_contain_text("You are not signed in")


def test_a_follower_with_a_token_follows(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN, ["one"], status="open")
    server = serve({FQN: [run]}, "secret", "jwt")
    page.goto(address(server))
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")
    expect(page.locator(".row")).to_have_count(1)
    run.append("two")
    expect(page.locator(".row")).to_have_count(2)


def test_a_stage_that_asks_for_signatures_says_so(page: Page, serve: Serve) -> None:
    server = serve({FQN: [FakeRun(RUN, ["one"])]}, "never", "iam")
    page.goto(server.url)
    expect(page.get_by_role("dialog")).to_contain_text("SigV4")


@pytest.mark.behavior("The viewer shows each line once after the server was unavailable.")
def test_the_server_is_gone_and_comes_back(page: Page, serve: Serve) -> None:
    page.clock.install()
    run = FakeRun(RUN, ["line 1"], status="open")
    server = serve({FQN: [run]})
    page.goto(address(server))
    expect(page.locator(".row")).to_have_count(1)
    server.stop()
    expect(page.locator(".connection")).to_contain_text("The server is unavailable")
    run.append(*(f"line {number}" for number in range(2, 12)))
    page.clock.run_for(60_000)
    server.start()
    expect(page.locator(".row")).to_have_count(11)
    expect(page.locator(".connection")).to_be_empty()
    assert [row(page, number) for number in range(1, 12)] == [f"line {number}" for number in range(1, 12)]
    run.append("line 12")
    expect(page.locator(".row")).to_have_count(12)


def test_a_page_that_could_not_be_fetched_is_tried_again(page: Page, serve: Serve) -> None:
    server = serve({FQN: [large()]})
    page.goto(address(server))
    expect(page.locator(".row").first).to_contain_text("batch 0")
    server.stop()
    page.keyboard.press("End")
    expect(page.get_by_role("alert")).to_contain_text("does not respond")
    server.start()
    expect(page.locator('[data-line="4999999"] .text')).to_contain_text("batch 4999999")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_what_is_not_there_says_so(page: Page, serve: Serve) -> None:
    server = serve({FQN: []})
    page.goto(address(server, "no-such-run"))
    expect(page.get_by_role("alert")).to_contain_text("Log not found")
    page.goto(f"{server.url}?p={FQN}")
    expect(page.locator("main")).to_contain_text("no runs")


def test_a_run_that_is_about_to_begin_is_waited_for(page: Page, serve: Serve) -> None:
    server = serve({FQN: []})
    page.goto(address(server))
    expect(page.get_by_role("alert")).to_contain_text("retries automatically")
    server.runs[FQN].append(FakeRun(RUN, ["the first"]))
    expect(page.locator(".row")).to_contain_text("the first")


def test_the_histogram_leads_to_its_lines(page: Page, serve: Serve) -> None:
    server = serve({FQN: [large()]})
    page.goto(address(server))
    expect(page.locator(".histogram .clock")).to_have_text("timestamps in the lines, UTC")
    bar = page.locator(".bar").nth(40)
    expect(bar).to_have_attribute("aria-label", re.compile(r"\d\d:\d\d:\d\d: 62,500 lines, "))
    bar.click()
    expect(page.locator('[data-line="2500000"] .text')).to_contain_text("batch 2500000")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.locator('[data-line="2562500"] .text')).to_contain_text("batch 2562500")


def test_keys_are_told_and_work(page: Page, serve: Serve) -> None:
    server = serve({FQN: [FakeRun(RUN, ["x" * 3000, "y"])]})
    page.goto(address(server))
    expect(page.locator(".row")).to_have_count(2)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("Next match")
    page.keyboard.press("Escape")
    before = page.locator(".row").first.bounding_box()
    page.keyboard.press("w")
    expect(page.get_by_role("button", name="Wrap long lines")).to_have_attribute("aria-pressed", "true")
    page.wait_for_timeout(200)
    after = page.locator(".row").first.bounding_box()
    assert before and after and after["height"] > before["height"] * 5
    assert page.locator("html").get_attribute("data-theme") == "light"
    page.keyboard.press("t")
    assert page.locator("html").get_attribute("data-theme") == "dark"


def test_wrapped_lines_end_at_the_end(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN, [f"{number} " + "word " * 200 for number in range(1, 301)], status="open")
    server = serve({FQN: [run]})
    page.goto(address(server))
    expect(page.get_by_role("button", name="Following")).to_be_visible()
    expect(page.locator(".row").last).to_contain_text("300 word")
    page.keyboard.press("w")
    page.keyboard.press("f")
    page.keyboard.press("f")
    run.append("the end")
    last = page.locator(".row").last
    expect(last).to_contain_text("the end")
    box, log = last.bounding_box(), page.locator(".log").bounding_box()
    assert box and log and abs(box["y"] + box["height"] - log["y"] - log["height"]) < 20
    assert shown(page)[0] < 300
