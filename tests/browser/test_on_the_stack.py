"""The page, the client and the archive together: a program's log is displayed to its end, and equals the download."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
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
        page.goto(f"{stack.api_url}/v1/ui/?list")
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


def test_a_failed_command_appears_on_the_open_start_page(stack: Stack, page: Page, tmp_path: Path) -> None:
    fqn = f"start.page_{time.time_ns()}"
    page.goto(f"{stack.api_url}/v1/ui/?find={fqn}")
    expect(page.locator("main")).to_contain_text(re.compile("No (runs yet|failed, lost or silent runs)"))
    command = [sys.executable, "-m", "runlake", "--url", stack.api_url, "--spool-dir", str(tmp_path), "exec", fqn]
    source = {"PYTHONPATH": str(Path(runlake.__file__).parents[1])}
    failed = subprocess.run(
        [*command, "--", "sh", "-c", "echo ERROR; exit 3"], env=os.environ | source, capture_output=True, check=False
    )
    since = time.monotonic()
    row = page.locator(".run-row", has_text=fqn)
    expect(row).to_contain_text("Failed")
    print(f"from the end of exec to the start page: {time.monotonic() - since:.1f} s")
    assert failed.returncode == 3
    expect(page.locator(".why")).to_contain_text("exit status 3")
    expect(row.get_by_role("img")).to_have_attribute("aria-label", re.compile("^Last run: 1 failed"))
    expect(row.locator("td").last).to_have_text("1")


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
    # The key jumps to the end known when it is pressed; a reader presses it again after new lines.
    eventually(lambda: page.keyboard.press("End") or last.count())
    expect(last).to_have_text("compiled 2999")


def test_a_log_that_was_stored_late_is_found_by_its_own_times(stack: Stack, page: Page) -> None:
    run_id = f"late-{time.time_ns()}"
    begin = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(days=3)
    lines = [f"{begin + timedelta(minutes=number):%Y-%m-%d %H:%M:%S} INFO row {number}" for number in range(60)]
    lines[30:30] = ["Traceback (most recent call last):", '  File "orders.py", line 12, in load', "ValueError: no such table"]
    runlog = f"{stack.api_url}/v1/services/ingestionPipelines/logs/{quote(FQN, safe='')}/{run_id}"
    requests.post(
        runlog, data="\n".join(lines).encode(), headers={"Content-Type": "text/plain"}, timeout=PATIENCE_S
    ).raise_for_status()
    histogram = f"{stack.api_url}/v1/catalog/pipelines/{quote(FQN, safe='')}/runs/{run_id}/histogram"
    found = eventually(lambda: found if (found := requests.get(histogram, timeout=PATIENCE_S).json())["buckets"] else None)
    assert (found["clock"], found["fromMs"]) == ("lines", int(begin.timestamp() * 1000))
    since = f"{begin + timedelta(minutes=58):%Y-%m-%dT%H:%M}"
    command = [sys.executable, "-m", "runlake", "--url", stack.api_url, "tail", FQN, run_id, "--since", since, "--clock", "lines"]
    source = {"PYTHONPATH": str(Path(runlake.__file__).parents[1])}
    told = subprocess.run(command, env=os.environ | source, capture_output=True, text=True, check=True)
    assert told.stdout.splitlines() == lines[-2:]
    assert "times are those of the lines (UTC where they name no zone)" in told.stderr
    page.goto(f"{stack.api_url}/v1/ui/?p={quote(FQN)}&r={run_id}")
    expect(page.locator(".histogram .clock")).to_have_text("timestamps in the lines, UTC")
    page.get_by_label("Go to a line or a time").fill(f"{begin + timedelta(minutes=30):%Y-%m-%d %H:%M}")
    page.keyboard.press("Enter")
    expect(page.locator('[data-line="33"]')).to_have_class(re.compile("selected"))
    expect(page.locator(".row.error")).to_have_count(3)


def test_levels_and_data_of_events_are_shown(stack: Stack, page: Page, tmp_path: Path) -> None:
    run_id = f"data-{time.time_ns()}"
    given = {"url": stack.api_url, "spool_dir": str(tmp_path), "logger": None, "exit_s": 120, "events": True, "writer": "w"}
    with runlake.run(FQN, run_id, **given) as run:
        run.event("ERROR in words only", level="INFO")
        run.event("nothing to see", level="FATAL", data={"table": "<b>orders</b>", "rows": 2**53 + 1})
    page.goto(f"{stack.api_url}/v1/ui/?p={quote(FQN)}&r={run_id}")
    expect(page.locator(".row.critical")).to_have_count(1)
    assert page.locator(".row.error").count() == 0
    page.get_by_role("button", name=re.compile("^Data of line")).click()
    expect(page.locator(".data")).to_contain_text('"table": "<b>orders</b>"')
    expect(page.locator(".data")).to_contain_text(f'"rows": {2**53 + 1}')


def test_a_processing_pipeline_is_switched_on_and_off(stack: Stack, page: Page) -> None:
    def state() -> str:
        with requests.get(f"{stack.api_url}/v1/pipelines", timeout=PATIENCE_S) as answer:
            (found,) = answer.json()["pipelines"]
        return str(found["state"])

    page.goto(f"{stack.api_url}/v1/ui/?pipelines")
    asked, row = page.get_by_role("dialog"), page.locator("tbody").filter(has=page.locator("th", has_text="runlake"))
    row.get_by_role("button", name="Enable runlake").click()
    asked.get_by_role("button", name="Enable").click()
    expect(page.locator(".outcome")).to_have_text("runlake is enabled.")
    assert state() != "disabled"
    row.get_by_role("button", name="Disable runlake").click()
    asked.get_by_role("button", name="Disable").click()
    expect(page.locator(".outcome")).to_have_text("runlake is disabled.")
    assert state() == "disabled"


def newest(stack: Stack) -> Any:
    """Facts of the pipeline's newest run, once catalogued."""
    with requests.get(f"{stack.api_url}/v1/catalog/pipelines", params={"prefix": FQN}, timeout=PATIENCE_S) as answer:
        (found,) = answer.json()["pipelines"]
    return found["last"]
