"""The page, the client and the archive together: what a program logs is on the screen, to its end, and is what is downloaded."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests
from playwright.sync_api import Page, expect

import runlake
from tests.integration.stacks import PATIENCE_S, Stack, eventually, shared_stack

FQN = "shop.orders/é nightly"


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with shared_stack() as shared:
        yield shared


def test_what_a_program_logs_is_found_followed_searched_and_downloaded(stack: Stack, page: Page, tmp_path: Path) -> None:
    logger = logging.Logger("orders")
    given = {"url": stack.api_url, "spool_dir": str(tmp_path), "logger": logger}
    with runlake.run(FQN, "run-1", **given) as run:
        run.handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
        logger.info("the first")
        run.handler.flush()
        eventually(lambda: newest(stack))
        page.goto(f"{stack.api_url}/v1/ui/")
        page.get_by_role("link", name=FQN).click()
        page.get_by_role("link", name="run-1", exact=True).click()
        expect(page.locator(".row").last).to_contain_text("the first")
        for number in range(2000):
            logger.log(logging.ERROR if number % 500 == 7 else logging.INFO, "order %d <b>of</b> many", number)
        expect(page.locator(".row").last).to_contain_text("order 1999 <b>of</b> many")
        logger.info("the last")
    expect(page.locator(".row").last).to_contain_text("the last")
    expect(page.get_by_text("Succeeded", exact=True)).to_be_visible()
    page.get_by_label("Search in this run").fill("ERROR order")
    page.keyboard.press("Enter")
    expect(page.get_by_text("of 4 lines")).to_be_visible()
    expected = [
        "INFO the first",
        *(f"{'ERROR' if number % 500 == 7 else 'INFO'} order {number} <b>of</b> many" for number in range(2000)),
        "INFO the last",
    ]
    with page.expect_download() as downloading:
        page.get_by_role("button", name="Download").click()
    assert Path(downloading.value.path()).read_text().splitlines() == expected
    eventually(lambda: newest(stack)["lines"] == len(expected))


def test_steps_are_a_tree_and_a_step_is_read_alone(stack: Stack, page: Page, tmp_path: Path) -> None:
    run_id = f"steps-{time.time_ns()}"
    given = {"url": stack.api_url, "spool_dir": str(tmp_path), "logger": None, "exit_s": 120, "events": True, "writer": "w"}
    with runlake.run(FQN, run_id, **given) as run:
        run.event("begin")
        with run.step("Build"), run.step("Compile <b>"):
            note = runlake.link(4, 4, "https://example.com/x")
            run.event("see this", level="ERROR", annotations=[note, runlake.fold()])
            run.handler.flush()
            page.goto(f"{stack.api_url}/v1/ui/?p={quote(FQN)}&r={run_id}")
            expect(page.get_by_role("treeitem")).to_have_count(3, timeout=300_000)
            page.get_by_role("treeitem", name="Compile <b>").click()
            expect(page.locator(".step-pane .text")).to_have_text("see this", timeout=300_000)
            expect(page.locator(".step-pane").get_by_role("link", name="this")).to_have_attribute("href", "https://example.com/x")
            for number in range(3000):
                run.event(f"compiled {number}")
    expect(page.locator(".state")).to_contain_text("Complete", timeout=300_000)
    expect(page.get_by_role("treeitem", name="Compile <b>")).to_contain_text("succeeded")
    expect(page.get_by_role("treeitem", name="Compile <b>")).to_contain_text("1 error")
    page.locator(".step-pane .log").focus()
    last = page.locator('.step-pane [data-line="3000"] .text')
    # The end is where the pane knows it to be when the key is pressed: a reader presses it again when lines have come.
    eventually(lambda: page.keyboard.press("End") or last.count())
    expect(last).to_have_text("compiled 2999")


def test_a_processing_pipeline_is_switched_off_and_on(stack: Stack, page: Page) -> None:
    def state() -> str:
        with requests.get(f"{stack.api_url}/v1/pipelines", timeout=PATIENCE_S) as answer:
            (found,) = answer.json()["pipelines"]
        return str(found["state"])

    page.goto(f"{stack.api_url}/v1/ui/?pipelines")
    asked, row = page.get_by_role("dialog"), page.locator("tbody").filter(has=page.locator("th", has_text="runlake"))
    row.get_by_role("button", name="Disable runlake").click()
    asked.get_by_role("button", name="Disable").click()
    expect(page.locator(".outcome")).to_have_text("runlake is disabled.")
    assert state() == "disabled"
    row.get_by_role("button", name="Enable runlake").click()
    asked.get_by_role("button", name="Enable").click()
    expect(page.locator(".outcome")).to_have_text("runlake is enabled.")
    assert state() != "disabled"


def newest(stack: Stack) -> Any:
    """Facts of the pipeline's newest run, as soon as it is catalogued."""
    with requests.get(f"{stack.api_url}/v1/catalog/pipelines", params={"prefix": FQN}, timeout=PATIENCE_S) as answer:
        (found,) = answer.json()["pipelines"]
    return found["last"]
