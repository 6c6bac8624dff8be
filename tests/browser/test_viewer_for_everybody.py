"""Accessibility: axe finds no violation on any page, in either theme, wide or narrow."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests import prerequisites
from tests.browser.fake import FakeRun, FakeServer, numbered
from tests.browser.test_hostile_logs import HOSTILE
from tests.prerequisites import require

# Of viewer/package-lock.json
AXE = Path(__file__).parents[2] / "viewer" / "node_modules" / "axe-core" / "axe.min.js"
COLOURS = [" ".join(f"\x1b[{code}mcolour {code}\x1b[0m" for code in range(start, start + 8)) for start in (30, 40, 90, 100)]
LEVELS = ["10:00 ERROR it failed: https://example.com/x.", "10:00 WARN it may fail", "10:00 INFO it runs", "10:00 DEBUG it is here"]


def violations(page: Page) -> list[str]:
    require(prerequisites.AXE)
    page.evaluate(AXE.read_text())
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [
        f"{each['id']}: {json.dumps([[node['html'][:200], node['failureSummary']] for node in each['nodes'][:3]])}"
        for each in found
    ]


@pytest.fixture
def server(serve: Callable[..., FakeServer]) -> FakeServer:
    lines = [*HOSTILE, *COLOURS, *LEVELS, "D" * 9_000]
    why = {"line": 0, "text": "".join(HOSTILE)[:300], "rule": "last-error", "score": 0.3}
    lost = FakeRun("run-3", ["x"], end="abandoned", known={"explanation": why})
    runs = [FakeRun("run-1", lines), FakeRun("run-2", ["x"], status="open"), lost]
    return serve({"svc.hostile": runs, "svc.large": [FakeRun("run", count=100_000, text=numbered(100_000))]})


@pytest.mark.behavior("The viewer's pages pass automatic accessibility checks.")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_no_page_has_a_violation(page: Page, server: FakeServer, theme: str, width: int) -> None:
    page.emulate_media(color_scheme="dark" if theme == "dark" else "light", reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 800})
    page.goto(f"{server.url}?list")
    expect(page.locator("tbody tr")).to_have_count(2)
    assert violations(page) == []
    page.goto(f"{server.url}?p=svc.hostile")
    expect(page.locator("tbody tr")).to_have_count(4)
    assert violations(page) == []
    page.goto(f"{server.url}?p=svc.hostile&r=run-1#L16-L18")
    expect(page.locator(".row").first).to_be_visible()
    page.get_by_label("Search in this run").fill("e")
    expect(page.locator(".matches")).to_contain_text("lines")
    assert violations(page) == []
    page.goto(f"{server.url}?p=svc.hostile&r=run-2")
    expect(page.get_by_role("button", name="Following")).to_be_visible()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert violations(page) == []
    page.goto(f"{server.url}?p=svc.hostile&r=no-such-run")
    expect(page.get_by_role("alert")).to_be_visible()
    assert violations(page) == []


def test_a_narrow_page_does_not_scroll_sideways(page: Page, server: FakeServer) -> None:
    page.set_viewport_size({"width": 360, "height": 640})
    for query in ("?list", "?p=svc.hostile", "?p=svc.hostile&r=run-1"):
        page.goto(server.url + query)
        expect(page.locator("tbody tr, .row").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_keyboard_alone_is_enough(page: Page, server: FakeServer) -> None:
    page.goto(f"{server.url}?list")
    expect(page.locator("tbody tr")).to_have_count(2)
    page.get_by_role("link", name="svc.large").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("link", name="run", exact=True)).to_be_visible()
    page.get_by_role("link", name="run", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".log")).to_be_focused()
    page.keyboard.press("PageDown")
    expect(page.locator(".range")).not_to_have_text("Lines 1 to 29 of 100,000")
