"""The page of a failed run: the summary, and the line that explains the failure."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.fake import FakeRun, FakeServer, FakeStep, numbered
from tests.browser.test_viewer import FQN, RUN, address
from tests.browser.test_viewer_for_everybody import violations

Serve = Callable[..., FakeServer]
HOSTILE = "<img src=x onerror=alert(1)>\u202e"


def candidate(line: int, text: str = "no such table", rule: str = "schema") -> dict[str, Any]:
    return {"line": line, "text": text, "rule": rule, "family": None, "score": 0.8}


def failed(**known: Any) -> FakeRun:
    return FakeRun(RUN, count=50_000, text=numbered(50_000), known={"outcome": "failed", "exitCode": 3, **known})


@pytest.mark.behavior("A failed run opens at the line that explains the failure, with a summary, also on a narrow screen.")
@pytest.mark.parametrize("width", [1280, 390])
def test_a_failed_run_opens_at_the_line_that_explains_it(page: Page, serve: Serve, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 667})
    known = [candidate(40_000, f"{HOSTILE} " * 20), candidate(77), candidate(78, rule="new-rule")]
    server = serve({FQN: [failed(candidates=known, orchestratorUrl="https://airflow.example/dags/a%2Fb/grid")]})
    page.goto(address(server))
    cause = page.locator('[data-line="40000"]')
    expect(cause).to_have_class(re.compile("cause"))
    expect(page.locator(".bar").first).to_be_visible()
    expect(cause.locator(".number")).to_be_in_viewport(ratio=1)
    summary = page.get_by_role("region", name="Why the run failed")
    expect(summary).to_contain_text("Failed exit status 3")
    expect(summary).to_contain_text("<img src=x onerror=alert(1)>U+202E")
    expect(summary).to_contain_text("a table, column or type is not as expected")
    expect(summary.locator("li").last).to_contain_text("new-rule")
    link = page.get_by_role("link", name="airflow.example", include_hidden=True)
    assert (link.get_attribute("href"), link.get_attribute("rel")) == (
        "https://airflow.example/dags/a%2Fb/grid",
        "noopener noreferrer",
    )
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    summary.get_by_role("link", name="Line 78").click()
    expect(page.locator('[data-line="77"]')).to_have_class(re.compile("selected"))
    expect(page).to_have_url(re.compile("#L78$"))
    page.reload()
    expect(page.locator('[data-line="77"]')).to_have_class(re.compile("selected"))
    assert not [path for path, _ in server.asked if "/explanation" in path]


@pytest.mark.behavior("The viewer deletes a run once its id is typed.")
@pytest.mark.parametrize("width", [1280, 390])
def test_run_is_deleted_once_its_id_is_typed(page: Page, serve: Serve, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 667})
    server = serve({FQN: [failed()]})
    page.goto(address(server))
    page.get_by_role("button", name="Delete…").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Type the run's id").fill(RUN[:-1])
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_contain_text("This is not the run's id.")
    assert violations(page) == [] and server.deletions == []
    dialog.get_by_label("Type the run's id").fill(f" {RUN} ")
    dialog.get_by_label("Reason").fill("a password")
    server.refusals["DELETE"] = (403, "no scope")
    dialog.get_by_role("button", name="Delete").click()
    expect(dialog).to_contain_text("requires the scope logs:delete")
    server.refusals.clear()
    dialog.get_by_role("button", name="Delete").click()
    expect(page.locator(".notice")).to_contain_text(
        "The run is deleted: 7 objects removed. Outstanding: dataset, until its next job"
    )
    assert server.deletions == ["a password"] * 2
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.reload()
    expect(page.locator(".run")).to_have_text(re.compile("its id cannot be used again.*Runs of the pipeline$"))
    page.get_by_role("link", name="Runs of the pipeline").click()
    expect(page).to_have_url(re.compile(FQN))


def test_keys_and_the_count_of_errors_lead_to_errors(page: Page, serve: Serve) -> None:
    """Every 997th line is one."""
    page.goto(address(serve({FQN: [failed(candidates=[candidate(40_000)])]})))
    expect(page.locator('[data-line="40000"]')).to_be_visible()
    for key, line in (("e", 40_876), ("e", 41_873), ("E", 40_876), ("E", 39_879)):
        page.keyboard.press(key)
        expect(page.locator(f'[data-line="{line}"]')).to_have_class(re.compile("error selected"))
    page.get_by_role("button", name=re.compile("^[0-9]+ errors$")).click()
    expect(page).to_have_url(re.compile("#L40877$"))
    page.keyboard.press("Home")
    expect(page.locator('[data-line="0"]')).to_be_visible()
    page.locator(".log").focus()
    page.keyboard.press("E")
    expect(page.locator(".message")).to_have_text("No more errors above.")


def test_an_explanation_that_is_not_recorded_is_requested_once(page: Page, serve: Serve) -> None:
    run = failed(outcome="lost", exitCode=None)
    run.explained = [candidate(30_000)]
    server = serve({FQN: [run]})
    page.goto(address(server))
    expect(page.locator('[data-line="30000"]')).to_have_class(re.compile("cause"))
    expect(page.get_by_role("region", name="Why the run failed")).to_contain_text("Lost")
    assert len([path for path, _ in server.asked if "/explanation" in path]) == 1


@pytest.mark.parametrize("failing", ["/explanation", "/steps", "/completeness"])
def test_failed_request_is_an_error_until_it_succeeds(page: Page, serve: Serve, failing: str) -> None:
    run = failed()
    run.explained, run.steps = [candidate(30_000)], [FakeStep("s", "Load")]
    server = serve({FQN: [run]})
    server.failing = failing
    page.goto(address(server))
    expect(page.get_by_role("alert")).to_contain_text("Server error")
    server.failing = ""
    expect(page.get_by_role("treeitem")).to_have_count(2)
    expect(page.get_by_role("region", name="Why the run failed")).to_contain_text("Line 30,001")
    expect(page.get_by_role("alert")).to_have_count(0)
