"""Events in the page: rows of errors as the server defines them, and an event's data."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.fake import FakeRun, FakeServer
from tests.browser.test_viewer import FQN, RUN, address
from tests.browser.test_viewer_for_everybody import violations

Serve = Callable[..., FakeServer]
CASES = [case for case in json.loads((Path(__file__).parents[1] / "error_cases.json").read_text()) if "lines" in case]
TRACES = {"traceback after INFO": [2, 3]}
"""Lines of errors after their first."""
HOSTILE = '<img src=x onerror="window.owned = 1">\u202e\x1b[31m'


def marked(page: Page, *classes: str) -> list[int]:
    """Numbers of rows with one of the classes, from 0."""
    rows = page.locator(",".join(f".row.{name}" for name in classes)).all()
    return [int(row.get_attribute("data-line") or -1) for row in rows]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_rows_of_errors_are_those_of_every_reader(page: Page, serve: Serve, case: dict[str, Any]) -> None:
    page.goto(address(serve({FQN: [FakeRun(RUN, case["lines"])]})))
    expect(page.locator(".row.error").first).to_be_visible()
    assert marked(page, "error", "critical") == sorted(case["errors"] + TRACES.get(case["name"], []))
    label = page.locator(f'[data-line="{case["errors"][0]}"] .number').get_attribute("aria-label")
    assert label == f"Line {case['errors'][0] + 1}, ERROR", "not by colour alone"


def test_levels_that_senders_state_count_whatever_the_text_says(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN, status="open")
    run.say("ERROR in words only", level="INFO")
    run.say("two\nlines", level="err")
    page.goto(address(serve({FQN: [run]})))
    expect(page.locator(".row.error")).to_have_count(2)
    assert marked(page, "error") == [1, 2]
    run.say("as it comes", level="Warn")
    run.say("the end so far", level="FATAL")
    expect(page.locator(".row.critical")).to_have_count(1)
    assert [marked(page, name) for name in ("warning", "critical")] == [[3], [4]]


def test_data_of_an_event_is_shown_as_text_by_keys_too(page: Page, serve: Serve) -> None:
    run = FakeRun(RUN)
    run.steps = []
    run.say("nothing more to say")
    run.say("loaded", data={HOSTILE: {"rows": 42, "note": HOSTILE}})
    page.goto(address(serve({FQN: [run]})))
    button = page.get_by_role("button", name="Data of line 2")
    expect(button).to_have_count(1)
    assert page.locator("[data-data]").count() == 1, "what the archive adds is no reason for a button"
    button.focus()
    page.keyboard.press("Enter")
    shown = page.get_by_role("region", name="Data of line 2")
    expect(shown).to_contain_text('"rows": 42')
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(shown).to_contain_text('"jobId": "fqn"')
    text = shown.text_content() or ""
    assert "<img src=x" in text and "\\u202e\\u001b[31m" in text and not set(text) & {"\u202e", "\x1b"}
    assert page.locator(".log img").count() == 0 and page.evaluate("window.owned") is None
    assert violations(page) == []
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(shown).to_have_count(0)
    expect(button).to_have_attribute("aria-expanded", "false")
