"""Latency for viewers of a live run, and the data that they load: ``make bench-live``; ``ARGS=--write`` stores the rows for
docs/performance.md.

Uses a private stack with gateway and functions. Latency starts at the logging call: through the client, the API, S3 and the stream,
and for the screen through the page in Chromium, which notes the time when it draws the line.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

import requests
from playwright.sync_api import Page, sync_playwright
from requests.adapters import HTTPAdapter
from urllib3 import Retry

import runlake
from bench.command import measure_all, parse_selection, parser_of
from bench.live_viewer import Viewer
from bench.measure import Measure, Measurement, reported
from local import control
from local.emulator import free_port
from runlake import Archive, RunName
from runlake.following import Follower

LOGS = "/v1/services/ingestionPipelines/logs"
CHROMIUM = os.environ.get("CHROMIUM", "/usr/bin/chromium")
LINES, PACE_S = 100, 0.3
RUNS, VIEWERS, CROWD_LINES = 10, 50, 30
STARTS_EVERY_S = 1.5
"""Each open stream takes a worker of the emulator, and starting a worker takes a second of a core here."""
LARGE_BYTES, BATCH_BYTES = 1_000_000_000, 4_000_000
_QUIET = dict.fromkeys(("PartialFlushIntervalMinutes", "CleanupIntervalMinutes", "PipelinesIntervalMinutes"), "1440")
_NOTE_LINES = """() => {
  window.drawn = {};
  const note = () => document.querySelectorAll(".row .text").forEach((text) => {
    const line = text.textContent.trim();
    if (line.includes("number ") && !(line in window.drawn)) window.drawn[line] = Date.now();
  });
  new MutationObserver(note).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
"""Notes when each line first appears in the page."""


def to_viewer(url: str, lines: int = LINES) -> list[Measure]:
    """From the append call to a viewer of the stream."""
    path, sent_s = f"{url}{LOGS}/live.viewer", {}
    with ThreadPoolExecutor(1) as threads, requests.Session() as session:
        viewer = threads.submit(Viewer(f"{path}/stream/run-1").watch)
        for number in range(lines):
            sent_s[f"number {number}"] = time.time()
            session.post(f"{path}/run-1", json=f"number {number}", timeout=30).raise_for_status()
            time.sleep(PACE_S)
        session.post(f"{path}/run-1/close", timeout=60).raise_for_status()
        seen = viewer.result()
    assert seen.lines == list(sent_s)
    return [_delays("append to a viewer of the stream", [came_s - sent_s[line] for line, came_s in seen.seen])]


def to_screen(url: str, lines: int = LINES) -> list[Measure]:
    """From a logging call to the page."""
    sent_s: dict[str, float] = {}
    logger = logging.Logger("live")
    with runlake.run("live.screen", "run-1", logger=logger, url=url) as run, chromium_page(url) as page:
        run.handler.setFormatter(logging.Formatter("%(message)s"))
        logger.info("the first")
        run.handler.flush()
        page.goto(f"{url}/v1/ui/?p=live.screen&r=run-1")
        page.get_by_text("the first").wait_for()
        page.evaluate(_NOTE_LINES)
        for number in range(lines):
            sent_s[f"number {number}"] = time.time()
            logger.info("number %d", number)
            page.wait_for_timeout(PACE_S * 1000)
        page.get_by_text(f"number {lines - 1}", exact=True).wait_for()
        drawn: dict[str, int] = page.evaluate("window.drawn")
    assert drawn.keys() == sent_s.keys()
    return [_delays("logging call to the page in a browser", [drawn[line] / 1000 - at_s for line, at_s in sent_s.items()])]


def crowd(url: str, runs: int = RUNS, viewers: int = VIEWERS) -> list[Measure]:
    """Concurrent runs, one of them with many viewers, the rest with one viewer each."""
    expected = {number: [f"line {line} of run {number}" for line in range(CROWD_LINES)] for number in range(runs)}
    wanted = [0] * viewers + list(range(1, runs))

    def write(number: int) -> None:
        with requests.Session() as session:
            for line in expected[number]:
                session.post(f"{url}{LOGS}/live.crowd/run-{number}", json=line, timeout=60).raise_for_status()
                time.sleep(1)
            session.post(f"{url}{LOGS}/live.crowd/run-{number}/close", timeout=60).raise_for_status()

    with ThreadPoolExecutor(len(wanted) + runs) as threads:
        watching = []
        for number in wanted:
            watching.append(threads.submit(Viewer(f"{url}{LOGS}/live.crowd/stream/run-{number}").watch))
            time.sleep(STARTS_EVERY_S)
        list(threads.map(write, range(runs)))
        seen = [each.result() for each in watching]
    right = sum(each.lines == expected[number] for each, number in zip(seen, wanted, strict=True))
    what = f"{viewers} viewers on one run, {runs} runs at once: viewers that see every line once, in order"
    return [Measure(what, "all", f"{right} of {len(wanted)}", right == len(wanted))]


def last_page(url: str, size: int = LARGE_BYTES) -> list[Measure]:
    """Bytes that the page loads to show the end of a large log."""
    path = f"{url}{LOGS}/live.large/run-1"
    line = "2026-11-21 03:00:00,000 - live.large - INFO - row 00000000: " + "x" * 38 + "\n"
    batch = (line * (BATCH_BYTES // len(line))).encode()
    with requests.Session() as session:
        # A retry with the same cookie is stored once.
        session.mount("http://", HTTPAdapter(max_retries=Retry(5, status_forcelist=[503], allowed_methods=None)))
        for _ in range(-(-size // len(batch))):
            answer = session.post(path, data=batch, headers={"Content-Type": "text/plain"}, timeout=60)
            answer.raise_for_status()
        session.post(path, data=b"the very last\n", headers={"Content-Type": "text/plain"}, timeout=60).raise_for_status()
    with chromium_page(url) as page:
        loaded = _counted(page)
        started_s = time.monotonic()
        page.goto(f"{url}/v1/ui/?p=live.large&r=run-1")
        page.get_by_text("the very last").wait_for(timeout=60_000)
        seconds = time.monotonic() - started_s
        page.wait_for_timeout(1000)
        total = sum(loaded)
    what = f"bytes that the page loads to show the last page of {size / 1e9:.1f} GB"
    return [Measure(what, "below 1 MB", f"{total / 1000:,.0f} kB, the page itself among it, in {seconds:.1f} s", total < 1_000_000)]


def quiet_tail(url: str, seconds: float = 126) -> list[Measure]:
    """Request rate of ``runlake tail -f`` while no lines arrive: in the first minutes, after which it does not change."""
    name = RunName("live.quiet", "run-1")
    with Archive(url) as archive, Archive(url) as followed, ThreadPoolExecutor(1) as threads:
        archive.append_text(name, b"the only line\n")
        following = Follower(followed, name)
        pieces = following.pieces()
        assert next(pieces).lines == ["the only line"]
        before = following.requests
        rest = threads.submit(list, pieces)
        time.sleep(seconds)
        asked = (following.requests - before) * 3600 / seconds
        archive.close_run(name)
        assert [piece.lines for piece in rest.result()] == [[]]
    return [reported("requests of `runlake tail -f` an hour while nothing comes", f"{asked:.0f}")]


def hour(url: str, seconds: float = 3600) -> list[Measure]:
    """Peak memory of a page that follows a run for an hour: private memory of its renderer."""
    path, end_s, highest, lines = f"{url}{LOGS}/live.hour/run-1", time.monotonic() + seconds, 0, 0
    with requests.Session() as session, chromium_page(url) as page:
        session.post(path, json="the first", timeout=60).raise_for_status()
        page.goto(f"{url}/v1/ui/?p=live.hour&r=run-1")
        page.get_by_text("the first").wait_for()
        while time.monotonic() < end_s:
            texts = [
                f"2026-11-21 03:00:00,000 - live.hour - INFO - row {number:08d}: {'x' * 60}" for number in range(lines, lines + 100)
            ]
            session.post(path, json="\n".join(texts), timeout=60).raise_for_status()
            lines += len(texts)
            page.wait_for_timeout(2000)
            highest = max(highest, _memory_of(page))
        page.get_by_text(f"row {lines - 1:08d}").wait_for()
    what = f"memory of a page that follows a run for {seconds / 60:.0f} min, {lines:,} lines"
    return [Measure(what, "below 200 MB", f"{highest / 1e6:.0f} MB", highest < 200_000_000)]


def _memory_of(page: Page) -> int:
    """Private bytes of its process (Linux)."""
    assert page.context.browser
    told = page.context.browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")
    renderers = [each["id"] for each in told["processInfo"] if each["type"] == "renderer"]
    return max(_private_bytes(number) for number in renderers)


def _private_bytes(process: int) -> int:
    (told,) = (line for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("RssAnon:"))
    return int(told.split()[1]) * 1024


def _counted(page: Page) -> Sequence[int]:
    """Bytes of each response over the wire, as they arrive."""
    sizes: list[int] = []
    devtools = page.context.new_cdp_session(page)
    devtools.send("Network.enable")
    devtools.on("Network.loadingFinished", lambda event: sizes.append(int(event["encodedDataLength"])))
    return sizes


@contextmanager
def chromium_page(url: str) -> Iterator[Page]:
    """Opens a page of Chromium."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        try:
            yield browser.new_page(viewport={"width": 1280, "height": 800})
        finally:
            browser.close()


def _delays(what: str, delays_s: list[float]) -> Measure:
    ordered = sorted(delays_s)
    p50, p99 = median(ordered), ordered[int(len(ordered) * 0.99) - 1]
    return Measure(f"{what}: p50, p99", "p50 below 1 s", f"{p50:.2f} s, {p99:.2f} s, of {len(ordered)} lines", p50 < 1)


_STREAM = ("chalicelib/routes", "chalicelib/runlog/following.py", "chalicelib/runlog/reader.py", "local/gateway.py")
_CLIENT, _PAGE = "client/src/runlake", "chalicelib/viewer"
MEASUREMENTS = (
    Measurement("viewer", to_viewer, _STREAM, {"lines": 3}),
    Measurement("screen", to_screen, (*_STREAM, _CLIENT, _PAGE), {"lines": 3}),
    Measurement("crowd", crowd, _STREAM, {"runs": 2, "viewers": 2}),
    Measurement("last-page", last_page, (*_STREAM, _PAGE), {"size": 2 * BATCH_BYTES}),
    Measurement("tail", quiet_tail, (*_STREAM, _CLIENT)),
)
LONG = (Measurement("hour", hour, (*_STREAM, _PAGE)),)
"""Run only when named."""


def main() -> int:
    """Exit code 1 if a goal was missed."""
    names, long = ([measurement.name for measurement in each] for each in (MEASUREMENTS, LONG))
    by_name = {measurement.name: measurement for measurement in (*MEASUREMENTS, *LONG)}
    arguments = parse_selection(parser_of("bench.live", __doc__, names, long), names, long)
    port = free_port()
    try:
        stack: dict[str, Any] = dict(control.up(port, _QUIET, private=True))

        def run(measurement: Measurement, small: bool) -> list[Measure]:
            return measurement.run(stack["api_url"], **(measurement.small if small else {}))

        selected = [by_name[name] for name in arguments.names]
        return measure_all(selected, run, "live", write=arguments.write, small=arguments.small)
    finally:
        control.down(port)


if __name__ == "__main__":
    sys.exit(main())
