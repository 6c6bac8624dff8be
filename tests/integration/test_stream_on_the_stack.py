"""The live stream and the search for runs on the deployed stack: a writer and viewers that use plain HTTP."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import requests

from bench.live_viewer import Viewer
from tests.integration.stacks import PATIENCE_S, Stack, eventually
from tests.support.log_page import LogPage

LOGS = "/v1/services/ingestionPipelines/logs"
LINES = 12


def test_viewers_see_every_line_once_and_the_end(stack: Stack) -> None:
    fqn, run = f"live-{uuid4().hex[:8]}/a b", "run-1"
    path = f"{stack.api_url}{LOGS}/{quote(fqn, safe='')}"

    def write() -> None:
        with requests.Session() as session:
            for number in range(LINES):
                with session.post(
                    f"{path}/{run}", json=f"{number}\r \u2028 ERROR {'x' * (number == 5) * 1_000_000}", timeout=PATIENCE_S
                ) as answer:
                    assert answer.status_code == 200, answer.text
                time.sleep(0.5)
            with session.post(f"{path}/{run}/close", timeout=PATIENCE_S) as answer:
                assert answer.status_code == 200, answer.text

    def read(address: str) -> tuple[int, str]:
        with requests.get(stack.api_url + address, timeout=PATIENCE_S) as answer:
            answer.encoding = "utf-8"
            return answer.status_code, answer.text

    page = LogPage(fqn, run, read, time.sleep)
    with ThreadPoolExecutor(2) as threads:
        followed = threads.submit(page.follow)
        early = threads.submit(Viewer(f"{path}/stream/{run}").watch)
        writer = threading.Thread(target=write)
        time.sleep(1)
        writer.start()
        seen = early.result()
        followed.result()
        writer.join()
    late = Viewer(f"{path}/stream/{run}?tail=2").watch()
    expected = [f"{number}\r \u2028 ERROR {'x' * (number == 5) * 1_000_000}" for number in range(LINES)]
    assert (seen.lines, seen.reason) == (expected, "runFinished")
    assert (page.logs, page.end_reason, page.backoffs) == ("".join(f"{line}\n" for line in expected), "runFinished", [])
    assert (late.lines, late.reason) == (expected[-2:], "runFinished")
    eventually(lambda: ask(stack, f"/{quote(fqn, safe='')}/runs")["runs"], bool)
    assert "\n".join(page.history(fqn)) == "\n".join(expected)
    assert read(f"{LOGS}/{quote(fqn, safe='')}/{run}/download") == (200, "".join(f"{line}\n" for line in expected))


def test_a_run_is_found_searched_and_drawn(stack: Stack) -> None:
    fqn = f"found-{uuid4().hex[:8]}"
    with requests.post(
        f"{stack.api_url}{LOGS}/{fqn}/run-1", json="one\n2026-09-21 10:00:00 ERROR two\nthree\n", timeout=PATIENCE_S
    ) as answer:
        assert answer.status_code == 200, answer.text
    (found,) = eventually(lambda: ask(stack, f"?prefix={fqn}")["pipelines"], lambda found: found and found[0]["last"])
    assert (found["fqn"], found["last"]["lines"], found["last"]["status"]) == (fqn, 3, "open")
    (listed,), shown = ask(stack, f"/{fqn}/runs")["runs"], ask(stack, f"/{fqn}/runs/run-1")
    for each in (listed, shown):
        each["durationMs"] = found["last"]["durationMs"]  # of a running run it grows
    assert listed == found["last"]
    assert shown == found["last"] | {
        "lost": 0,
        "candidates": [],
        "method": "runlog",
        "browser": "runlog",
        "orchestratorUrl": None,
    }
    matches = ask(stack, f"/{fqn}/runs/run-1/grep?q=%5E%5Cd%7B4%7D&regex=true")["matches"]
    assert [(each["line"], each["spans"]) for each in matches] == [(1, [[0, 4]])]
    drawn = eventually(lambda: ask(stack, f"/{fqn}/runs/run-1/histogram"), lambda found: found["buckets"])
    assert [(each["lines"], each["errors"]) for each in drawn["buckets"]] == [(3, 1)]


def ask(stack: Stack, path: str) -> Any:
    with requests.get(f"{stack.api_url}/v1/catalog/pipelines{path}", timeout=PATIENCE_S) as answer:
        assert answer.status_code == 200, answer.text
        return answer.json()
