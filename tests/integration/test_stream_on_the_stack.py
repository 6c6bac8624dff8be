"""The live stream and what runs are found by, on the deployed stack: a writer and viewers that know nothing but HTTP."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import requests

from tests.integration.stacks import Stack

LOGS = "/v1/services/ingestionPipelines/logs"
LINES = 12


@dataclass
class Viewer:
    """An ``EventSource``: asks again from the last id until it is told that nothing more comes. ``seen``: lines, and when they came."""

    url: str
    seen: list[tuple[str, float]] = field(default_factory=list)
    reason: str = ""
    answers: int = 0

    def watch(self) -> Viewer:
        last_event_id, give_up = "", time.monotonic() + 120
        with requests.Session() as session:
            while not self.reason:
                assert time.monotonic() < give_up
                headers = {"Last-Event-ID": last_event_id} if last_event_id else {}
                with session.get(self.url, headers=headers, timeout=60) as answer:
                    assert answer.status_code == 200, answer.text
                    assert answer.headers["Content-Type"].startswith("text/event-stream")
                    answer.encoding = "utf-8"
                    last_event_id, retry_ms = self._read(answer.text, last_event_id)
                self.answers += 1
                time.sleep(retry_ms / 1000)
        return self

    def _read(self, text: str, last_event_id: str) -> tuple[str, int]:
        now_s, retry_ms = time.time(), 3000
        for line in text.split("\n"):
            name, _, value = line.partition(": ")
            if name == "retry":
                retry_ms = int(value)
            elif name == "id":
                last_event_id = value
            elif name == "data":
                told = json.loads(value)
                self.seen += [(each, now_s) for each in told.get("logs", "").split("\n")[:-1]]
                self.reason = told.get("reason", "")
        return last_event_id, retry_ms


def test_viewers_see_every_line_once_within_a_second_and_the_end(stack: Stack) -> None:
    fqn, run = f"live-{uuid4().hex[:8]}/a b", "run-1"
    path = f"{stack.api_url}{LOGS}/{quote(fqn, safe='')}"
    sent_s: list[float] = []

    def write() -> None:
        with requests.Session() as session:
            for number in range(LINES):
                sent_s.append(time.time())
                with session.post(
                    f"{path}/{run}", json=f"{number}\r \u2028 ERROR {'x' * (number == 5) * 1_000_000}", timeout=30
                ) as answer:
                    assert answer.status_code == 200, answer.text
                time.sleep(0.5)
            with session.post(f"{path}/{run}/close", timeout=60) as answer:
                assert answer.status_code == 200, answer.text

    with ThreadPoolExecutor(2) as threads:
        early = threads.submit(Viewer(f"{path}/stream/{run}").watch)
        writer = threading.Thread(target=write)
        time.sleep(1)
        writer.start()
        seen = early.result()
        writer.join()
    late = Viewer(f"{path}/stream/{run}?tail=2").watch()
    expected = [f"{number}\r \u2028 ERROR {'x' * (number == 5) * 1_000_000}" for number in range(LINES)]
    assert [line for line, _ in seen.seen] == expected and seen.reason == "runFinished"
    assert [line for line, _ in late.seen] == expected[-2:] and late.reason == "runFinished"
    delays_s = sorted(came_s - was_s for (_, came_s), was_s in zip(seen.seen, sent_s, strict=True))
    print(f"append to viewer: p50 {median(delays_s):.2f} s, most {delays_s[-1]:.2f} s, {seen.answers} answers")
    assert median(delays_s) < 1.0


def test_a_run_is_found_searched_and_drawn(stack: Stack) -> None:
    fqn = f"found-{uuid4().hex[:8]}"
    with requests.post(f"{stack.api_url}{LOGS}/{fqn}/run-1", json="one\n2026 ERROR two\nthree\n", timeout=30) as answer:
        assert answer.status_code == 200, answer.text
    (found,) = eventually(lambda: ask(stack, f"?prefix={fqn}")["pipelines"], lambda found: found and found[0]["last"])
    assert (found["fqn"], found["last"]["lines"], found["last"]["status"]) == (fqn, 3, "open")
    assert ask(stack, f"/{fqn}/runs")["runs"] == [found["last"]]
    assert ask(stack, f"/{fqn}/runs/run-1") == found["last"] | {"lost": 0}
    matches = ask(stack, f"/{fqn}/runs/run-1/grep?q=%5E%5Cd%7B4%7D&regex=true")["matches"]
    assert [(each["line"], each["spans"]) for each in matches] == [(1, [[0, 4]])]
    drawn = eventually(lambda: ask(stack, f"/{fqn}/runs/run-1/histogram"), lambda found: found["buckets"])
    assert [(each["lines"], each["errors"]) for each in drawn["buckets"]] == [(3, 1)]


def ask(stack: Stack, path: str) -> Any:
    with requests.get(f"{stack.api_url}/v1/pipelines{path}", timeout=30) as answer:
        assert answer.status_code == 200, answer.text
        return answer.json()


def eventually(look: Callable[[], Any], holds: Callable[[Any], Any]) -> Any:
    give_up = time.monotonic() + 60
    while not holds(found := look()):
        assert time.monotonic() < give_up, found
        time.sleep(0.2)
    return found
