"""Steps in the viewer: the tree by mouse and keys, a step's log, links, colours and folds, completeness; runs without steps are
unchanged."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.fake import FakeRun, FakeServer, FakeStep
from tests.browser.test_viewer import FQN, RUN, address, requests_in_ten_minutes, row, shown
from tests.browser.test_viewer_for_everybody import violations

Serve = Callable[..., FakeServer]
HOSTILE = "<img src=x onerror=alert(1)>"


def built(status: str = "finalized") -> FakeRun:
    """A run of some steps with interleaved lines."""
    run = FakeRun(RUN, status=status)
    run.steps = [
        FakeStep("checkout", "Checkout", took_s=2),
        FakeStep("build", "Build", after_s=2, took_s=75, status="failed"),
        FakeStep("compile", "Compile", "build", after_s=2, took_s=60),
        FakeStep("test", f"Test {HOSTILE}", "build", after_s=62, took_s=15, status="failed"),
        FakeStep("unit", "Unit tests", "test", after_s=62, took_s=None, status=None, complete=False),
    ]
    run.say("starting")
    run.say("cloned", "checkout")
    for number in range(3000):
        run.say(f"compiled {number}", "compile")
        if number % 3 == 0:
            run.say(f"tested {number}", "test", level="ERROR" if number % 30 == 0 else "INFO")
    run.say("the end")
    return run


def item(page: Page, name: str) -> Locator:
    return page.get_by_role("treeitem").filter(has=page.locator(".label", has_text=re.compile(f"^{re.escape(name)}")))


def test_the_tree_tells_how_each_step_ended(page: Page, serve: Serve) -> None:
    server = serve({FQN: [built()]})
    page.goto(address(server))
    expect(page.get_by_role("treeitem")).to_have_count(6)
    expect(page.get_by_role("tree")).to_contain_text(HOSTILE)
    expect(item(page, "Build")).to_contain_text("failed")
    expect(item(page, "Build")).to_contain_text("1 min 15 s")
    expect(item(page, "Test")).to_contain_text("100 errors")
    expect(item(page, "Unit tests")).to_contain_text("no end was reported")
    expect(item(page, "Unit tests")).to_contain_text("incomplete")
    expect(item(page, "Unit tests")).to_have_attribute("aria-level", "3")
    expect(page.locator(".state")).to_have_text("Complete: all events are stored")
    item(page, "Build").locator(".fold").click()
    expect(page.get_by_role("treeitem")).to_have_count(3)
    expect(item(page, "Build")).to_have_attribute("aria-expanded", "false")
    assert row(page, 1) == "starting", "to fold is not to open"


def test_a_click_shows_a_steps_log_and_another_the_whole_one(page: Page, serve: Serve) -> None:
    server = serve({FQN: [built()]})
    page.goto(address(server))
    item(page, "Compile").click()
    expect(page.get_by_role("region", name="Log of the step Compile")).to_be_visible()
    expect(page.locator(".step-pane .text").nth(4)).to_have_text("compiled 4")
    expect(page.locator(".step-head")).to_contain_text("Succeeded · 1 min 0 s · 3,000 lines")
    expect(page).to_have_url(re.compile(re.escape(f"?p={FQN}&r={RUN}&s=compile") + "$"))
    assert sum(size for path, size in server.asked if "/log?" in path) < 110_000, "a part, not all"
    page.locator(".step-pane .log").focus()
    page.keyboard.press("End")
    expect(page.locator('.step-pane [data-line="2999"] .text')).to_have_text("compiled 2999")
    page.get_by_role("button", name="Go to first line").click()
    expect(page.locator(".step-pane")).to_have_count(0)
    expect(page.locator('[data-line="2"] .text')).to_have_text("compiled 0")
    item(page, "Test").click()
    expect(page.locator('.step-pane [data-line="1"] .text')).to_have_text("tested 3")
    item(page, "Whole log").click()
    expect(page.locator(".step-pane")).to_have_count(0)
    expect(page).not_to_have_url(re.compile("&s="))


def test_a_steps_address_leads_to_its_lines(page: Page, serve: Serve) -> None:
    server = serve({FQN: [built()]})
    page.goto(address(server) + "&s=compile#L2500-L2501")
    expect(page.locator('.step-pane [data-line="2499"]')).to_have_class(re.compile("selected"))
    expect(page.locator('.step-pane [data-line="2499"] .text')).to_have_text("compiled 2499")
    expect(item(page, "Compile")).to_have_attribute("aria-selected", "true")
    page.locator('.step-pane [data-line="2505"] .number').click()
    expect(page).to_have_url(re.compile("&s=compile#L2506$"))
    page.keyboard.press("Escape")
    expect(page.locator(".step-pane")).to_have_count(0)


def test_the_tree_by_keys_alone(page: Page, serve: Serve) -> None:
    server = serve({FQN: [built()]})
    page.goto(address(server))
    expect(page.get_by_role("treeitem")).to_have_count(6)
    page.keyboard.press("s")
    expect(item(page, "Whole log")).to_be_focused()
    for key, focused in [
        ("ArrowDown", "Checkout"), ("ArrowDown", "Build"), ("ArrowRight", "Compile"), ("ArrowLeft", "Build"), ("ArrowLeft", "Build"),
        ("ArrowDown", "Build"), ("ArrowRight", "Build"), ("End", "Unit tests"), ("ArrowLeft", "Test"), ("Home", "Whole log"),
        ("ArrowUp", "Whole log"),
    ]:  # fmt: skip
        page.keyboard.press(key)
        expect(item(page, focused)).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".step-pane .text")).to_have_text("cloned")
    expect(item(page, "Checkout")).to_be_focused()


def test_notes_are_links_colours_and_folds_and_never_markup(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN)
    run.steps = [FakeStep("s", "Notes")]
    run.say("before", "s")
    trace = f"see {HOSTILE} here\n  one\n  two"
    notes = [
        (4, {"kind": "link", "length": len(HOSTILE), "href": "https://example.com/a?b"}),
        (4 + len(HOSTILE) + 1, {"kind": "colour", "length": 4, "colour": "red"}),
        (0, {"kind": "link", "length": 3, "href": "javascript:alert(1)"}),
        (0, {"kind": "colour", "length": 3, "colour": "url(//evil)"}),
        (0, {"kind": "html", "html": HOSTILE}),
        (0, {"kind": "fold"}),
    ]
    run.say(trace, "s", notes=notes)
    run.say("after", "s")
    server = serve({FQN: [run]})
    page.goto(address(server) + "&s=s")
    link = page.locator(".step-pane").get_by_role("link", name=HOSTILE)
    expect(link).to_have_attribute("href", "https://example.com/a?b")
    expect(link).to_have_attribute("rel", "noopener noreferrer nofollow")
    expect(page.locator(".step-pane .row img")).to_have_count(0)
    expect(page.locator(".step-pane .row a:not(.number)")).to_have_count(1)
    expect(page.locator(".step-pane .fg-1")).to_have_text("here")
    page.get_by_role("button", name="Fold 2 lines").click()
    expect(page.locator(".step-pane .row")).to_have_count(3)
    assert [number.inner_text() for number in page.locator(".step-pane .number").all()] == ["1", "2", "5"]
    page.get_by_role("button", name="Show 2 lines").click()
    expect(page.locator(".step-pane .row")).to_have_count(5)


@pytest.mark.behavior("Steps and groups of lines fold in the log of a run, and groups in the log of a step.")
def test_steps_fold_in_the_whole_log_and_groups_in_a_steps_log(page: Page, serve: Serve) -> None:
    """A match, a line of the URL and a line that explains the failure show themselves."""
    run = FakeRun(RUN, known={"outcome": "failed"}, explained=[{"line": 200, "text": "no disk", "rule": "disk", "score": 0.9}])
    run.steps = [FakeStep("setup", f"Setup {HOSTILE}"), FakeStep("load", "Load", after_s=1, status="failed")]
    run.say("::group::Install\na\nb\n::endgroup::", "setup")
    for number in range(4, 3004):
        run.say("needle" if number == 100 else f"row {number}", "load")
    run.say("the end", level="ERROR")
    page.goto(address(serve({FQN: [run]})) + "#L1")
    load = page.get_by_role("button", name="Load failed · 3,000 lines")
    setup = page.get_by_role("button", name=f"Setup {HOSTILE} succeeded · 4 lines")
    setup.click()
    expect(setup).to_have_attribute("aria-expanded", "false")  # it was replaced, and then gets the focus
    expect(setup).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(load).to_be_focused()
    page.keyboard.press("Enter")
    expect(load).to_have_attribute("aria-expanded", "false")
    expect(page.locator(".row")).to_have_count(3)
    assert shown(page) == [1, 5, 3005]
    expect(page.locator('[data-line="3004"]')).to_have_class(re.compile("error"))
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.keyboard.press("c")
    expect(page.locator(".message")).to_have_text("Copied 1 line.")
    page.locator('[data-line="0"] .number').click()
    page.keyboard.press("c")
    expect(page.locator(".message")).to_have_text("Copied 3 lines.")
    assert violations(page) == []
    for show, line in (
        (lambda: page.get_by_label("Search in this run").fill("needle"), 100),
        (lambda: page.get_by_role("link", name="Line 201").click(), 200),
        (lambda: page.evaluate("location.hash = '#L3000'"), 2999),
    ):
        show()
        expect(page.locator(f'[data-line="{line}"]')).to_be_in_viewport()
        expect(setup).to_have_count(0)
        page.keyboard.press("Escape")
        page.keyboard.press("Home")
        expect(setup).to_have_attribute("aria-expanded", "false")
        load.click()
        expect(page.locator(".row")).to_have_count(3)
    item(page, "Setup").click()
    page.locator(".step-pane").get_by_role("button", name="Fold 3 lines").click()
    expect(page.locator(".step-pane .row")).to_have_count(1)
    expect(page.get_by_role("button", name="Show 3 lines")).to_be_focused()


def test_a_live_run_grows_steps_and_lines(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN, ["plain"], status="open")
    server = serve({FQN: [run]})
    page.clock.install()
    page.goto(address(server))
    expect(page.locator(".row")).to_have_count(1)
    expect(page.get_by_role("tree")).to_have_count(0)
    run.steps = [FakeStep("s", "Deploy", took_s=None, status="running", complete=False)]
    run.say("begun", "s")
    expect(item(page, "Deploy")).to_contain_text("so far")
    expect(page.locator(".state")).to_have_text("Not complete yet")
    item(page, "Deploy").click()
    expect(page.locator(".step-pane .text")).to_have_text("begun")
    run.say("more", "s")
    expect(page.locator(".step-pane .text").last).to_have_text("more")
    run.steps = [FakeStep("s", "Deploy", took_s=9, status="failed")]
    run.lost = ["agent <b>7</b>"]
    run.close()
    expect(page.locator(".state")).to_have_text("Events are lost. Writers: agent <b>7</b>")
    expect(item(page, "Deploy")).to_contain_text("failed")
    requests_in_ten_minutes(page, server)  # requests in flight
    assert requests_in_ten_minutes(page, server) == 0, "a finished run is not polled"


def test_a_run_without_steps_looks_as_before(page: Page, serve: Serve) -> None:
    server = serve({FQN: [FakeRun(RUN, ["one", "two"])]})
    page.goto(address(server))
    expect(page.locator(".row")).to_have_count(2)
    page.wait_for_timeout(300)
    expect(page.locator(".steps")).to_be_hidden()
    page.keyboard.press("s")
    expect(page.locator(".log")).to_be_focused()
    assert [path.rpartition("/")[2] for path, _ in server.asked if "/events/" in path and "outline" not in path] == ["steps"]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_violation_with_steps(page: Page, serve: Serve, theme: str, width: int) -> None:
    run = built()
    run.lost = ["agent-7"]
    run.steps.append(FakeStep("live", "Live", took_s=None, status="running", complete=False))
    run.say("a link\nb", "checkout", notes=[(2, {"kind": "link", "length": 4, "href": "https://x.org"}), (0, {"kind": "fold"})])
    server = serve({FQN: [run]})
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(address(server))
    expect(page.get_by_role("treeitem")).to_have_count(7)
    assert violations(page) == []
    item(page, "Checkout").click()
    expect(page.locator(".step-pane .row")).to_have_count(3)
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
